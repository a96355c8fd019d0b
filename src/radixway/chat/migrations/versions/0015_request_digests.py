"""Digests of what was asked with an idempotency key: with other words it is refused. Older keys have none."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
    for table in ("messages", "responses"):
        op.add_column(table, sa.Column("request_digest", sa.Text()))
