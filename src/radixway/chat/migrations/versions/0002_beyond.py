"""Adds columns for features beyond the published protocol."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("messages", sa.Column("finish_reason", sa.Text))
