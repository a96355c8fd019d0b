"""API keys, and logins at other servers that came back."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key_hash", sa.Text, nullable=False, unique=True),
        sa.Column("shown", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id", ondelete="CASCADE")),
        sa.Column("client", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("used_at", sa.Double),
    )
    op.create_index("ix_api_keys_of_user", "api_keys", ["user_id"])
    op.create_table(
        "used_logins",
        sa.Column("state_hash", sa.Text, primary_key=True),
        sa.Column("expires_at", sa.Double, nullable=False),
    )
