"""Creates the tables of keys, users, teams, what they spent and used."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "access_settings",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "access_revisions",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "access_records",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("alias", sa.Text),
        sa.Column("digest", sa.Text, unique=True),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
    )
    op.create_index("ix_access_records_of_revision", "access_records", ["revision"])
    op.create_index("ix_access_records_of_alias", "access_records", ["kind", "alias"])
    op.create_table(
        "access_spending",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("spent", sa.Double, nullable=False),
        sa.Column("total", sa.Double, nullable=False),
        sa.Column("resets_at", sa.Double),
        sa.Column("soft_alert_at", sa.Double),
        sa.Column("hard_alert_at", sa.Double),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_access_spending_of_revision", "access_spending", ["revision"])
    texts = ("day", "key_id", "user_id", "team_id", "model", "currency")
    counts = ("requests", "failed", "kept_answers", "estimated")
    tokens = ("prompt_tokens", "cached_tokens", "completion_tokens")
    op.create_table(
        "access_usage",
        *(sa.Column(name, sa.Text, primary_key=True) for name in texts),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in (*counts, *tokens)),
        sa.Column("cost", sa.Double, nullable=False),
    )
