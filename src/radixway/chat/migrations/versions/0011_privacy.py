"""Adds the table of deletions that are still to be scrubbed from files, and indices for erasure."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "unscrubbed",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("erased_at", sa.Double, nullable=False),
    )
    op.create_index("ix_messages_of_parent", "messages", ["parent_id"])
    op.create_index("ix_shares_of_message", "shares", ["message_id"])
