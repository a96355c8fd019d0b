"""Indexes answers by the time that they were begun, to measure how fast a queue moves."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_index("ix_messages_begun", "messages", ["work_begin_at"])
