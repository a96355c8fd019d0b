"""Adds the table of deletions that are still to be scrubbed from files, and indices for erasure."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
    op.create_table(
        "unscrubbed",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("erased_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_unscrubbed")),
    )
    op.create_index("ix_messages_of_parent", "messages", ["parent_id"])
    op.create_index("ix_shares_of_message", "shares", ["message_id"])
