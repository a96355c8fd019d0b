"""Sessions of pull workers."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "worker_sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("worker_id", sa.Text, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("info", sa.JSON, nullable=False),
        sa.Column("in_flight", sa.Integer, nullable=False),
        sa.Column("metrics", sa.JSON),
        sa.Column("last_seen", sa.Double, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
    )
