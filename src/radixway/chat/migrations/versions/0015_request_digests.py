"""Digests of what was asked with an idempotency key: with other words it is refused. Older keys have none."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    for table in ("messages", "responses"):
        op.add_column(table, sa.Column("request_digest", sa.Text))
