"""The tables. Names of models, teams and users are in them, keys are not."""

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, MetaData, Table, Text

metadata = MetaData()

settings = Table(
    "access_settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""`pepper`, and `keys_required` once there was a key."""

revisions = Table(
    "access_revisions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
)
"""The last revision of `records` and of `spending`: every transaction that changes rows takes the next one
first, so that one writes at a time, and readers see all rows up to a revision."""

records = Table(
    "access_records",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("alias", Text),
    Column("digest", Text, unique=True),
    Column("body", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Index("ix_access_records_of_revision", "revision"),
    Index("ix_access_records_of_alias", "kind", "alias"),
)
"""Keys, users and teams in JSON; of deleted ones nothing but that they are."""

spending = Table(
    "access_spending",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("spent", Double, nullable=False),
    Column("total", Double, nullable=False),
    Column("resets_at", Double),
    Column("soft_alert_at", Double),
    Column("hard_alert_at", Double),
    Column("revision", BigInteger, nullable=False),
    Index("ix_access_spending_of_revision", "revision"),
)
"""What each has spent in the period that ends at `resets_at`, and in all; when alerts of it were claimed."""

usage = Table(
    "access_usage",
    metadata,
    Column("day", Text, primary_key=True),
    Column("key_id", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("team_id", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("currency", Text, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("kept_answers", BigInteger, nullable=False),
    Column("estimated", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
)
