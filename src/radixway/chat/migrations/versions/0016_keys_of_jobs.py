"""The gateway's key by which an answer was asked for: it pays."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("key_id", sa.Text))
