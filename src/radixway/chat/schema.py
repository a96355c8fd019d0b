"""The tables. `migrations/` makes them; this is what they are to be.

Times are seconds since 1970, in UTC.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_AutoIncrement = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up in INTEGER alone

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("provider_account_id", Text, nullable=False),
    Column("display_name", Text, nullable=False),
    Column("role", Text, nullable=False, server_default="user"),
    Column("created_at", Double, nullable=False),
    Column("deleted", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("tenant", "provider", "provider_account_id"),
)

chats = Table(
    "chats",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("modified_at", Double, nullable=False),
    Column("title", Text),
    Column("hidden", Boolean, nullable=False, server_default=false()),
    Column("archived", Boolean, nullable=False, server_default=false()),
    Column("allow_data_use", Boolean, nullable=False, server_default=true()),
    Column("active_thread_tail_message_id", Text),
    Column("titled_by", Text),
    Index("ix_chats_of_user", "user_id", "id"),
)

messages = Table(
    "messages",
    metadata,
    Column("id", Text, primary_key=True),
    Column("chat_id", ForeignKey("chats.id", ondelete="CASCADE"), nullable=False),
    Column("parent_id", ForeignKey("messages.id", ondelete="CASCADE")),
    Column("role", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("content", Text),
    Column("error", Text),
    Column("created_at", Double, nullable=False),
    Column("score", Integer, nullable=False, server_default=text("0")),
    Column("work_parameters", JSON),
    Column("model", Text),
    Column("worker_id", Text),
    Column("worker_config", JSON),
    Column("work_begin_at", Double),
    Column("first_token_at", Double),
    Column("work_end_at", Double),
    Column("usage", JSON),
    Column("finish_reason", Text),
    Column("used_plugin", JSON),
    Column("safe_content", Text),
    Column("safety_level", Integer),
    Column("safety_label", Text),
    Column("safety_rots", Text),
    Column("idempotency_key", Text),
    Column("request_digest", Text),
    Column("version", Integer, nullable=False, server_default=text("0")),
    Index("ix_messages_of_chat", "chat_id", "id"),
    Index("ix_messages_of_parent", "parent_id"),
    Index("ix_messages_begun", "work_begin_at"),
    UniqueConstraint("chat_id", "idempotency_key"),
)

chat_tags = Table(
    "chat_tags",
    metadata,
    Column("chat_id", ForeignKey("chats.id", ondelete="CASCADE"), primary_key=True),
    Column("tag", Text, primary_key=True),
)

shares = Table(
    "shares",
    metadata,
    Column("id", Text, primary_key=True),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("chat_id", ForeignKey("chats.id", ondelete="CASCADE"), nullable=False),
    Column("message_id", ForeignKey("messages.id", ondelete="CASCADE"), nullable=False),
    Column("title", Text),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Index("ix_shares_of_chat", "chat_id"),
    Index("ix_shares_of_message", "message_id"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("number", _AutoIncrement, primary_key=True, autoincrement=True),
    Column("message_id", ForeignKey("messages.id", ondelete="CASCADE"), nullable=False, unique=True),
    Column("user_id", Text, nullable=False),
    Column("key_id", Text),
    Column("queue", Text, nullable=False),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    Column("state", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("available_at", Double, nullable=False),
    Column("deadline", Double),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("attempt_id", Text, unique=True),
    Column("lease_owner", Text),
    Column("lease_until", Double),
    Column("last_error", Text),
    Index("ix_jobs_ready", "state", "queue", "priority", "number"),
    Index("ix_jobs_of_user", "user_id"),
)

responses = Table(
    "responses",
    metadata,
    Column("message_id", ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("request", JSON, nullable=False),
    Column("background", Boolean, nullable=False),
    Column("output", JSON),
    Column("failure", JSON),
    Column("deleted", Boolean, nullable=False, server_default=false()),
    Column("idempotency_key", Text),
    Column("request_digest", Text),
    UniqueConstraint("user_id", "idempotency_key"),
)

question_items = Table(
    "question_items",
    metadata,
    Column("message_id", ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True),
    Column("items", JSON, nullable=False),
)

conversations = Table(
    "conversations",
    metadata,
    Column("chat_id", ForeignKey("chats.id", ondelete="CASCADE"), primary_key=True),
    Column("labels", JSON, nullable=False),
)

refresh_tokens = Table(
    "refresh_tokens",
    metadata,
    Column("token_hash", Text, primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("family", Text, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("used_at", Double),
    Column("revoked", Boolean, nullable=False, server_default=false()),
    Index("ix_refresh_tokens_of_user", "user_id"),
    Index("ix_refresh_tokens_of_family", "family"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("key_hash", Text, nullable=False, unique=True),
    Column("shown", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE")),
    Column("client", Text),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("used_at", Double),
    Index("ix_api_keys_of_user", "user_id"),
)

used_logins = Table(
    "used_logins",
    metadata,
    Column("state_hash", Text, primary_key=True),
    Column("expires_at", Double, nullable=False),
)

reports = Table(
    "reports",
    metadata,
    Column("id", Text, primary_key=True),
    Column("message_id", ForeignKey("messages.id", ondelete="CASCADE"), nullable=False),
    Column("report_type", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Index("ix_reports_of_message", "message_id"),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("selected_message_id", ForeignKey("messages.id", ondelete="CASCADE"), nullable=False),
    Column("inferior_message_ids", JSON, nullable=False),
    Column("created_at", Double, nullable=False),
    Index("ix_evaluations_of_message", "selected_message_id"),
)

workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("key_hash", Text, nullable=False, unique=True),
    Column("trusted", Boolean, nullable=False, server_default=false()),
    Column("created_at", Double, nullable=False),
)

rates = Table(
    "rates",
    metadata,
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("whole_at", Double, nullable=False),
)

# What is written with an answer's end has no foreign keys: checking them locks rows that others hold while
# they wait for that answer. What outlives its owner is let go when its turn comes.
budgets = Table(
    "budgets",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("whole_at", Double, nullable=False),
)

title_jobs = Table(
    "title_jobs",
    metadata,
    Column("chat_id", Text, primary_key=True),
    Column("message_id", Text, nullable=False),
    Column("available_at", Double, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("attempt_id", Text),
    Index("ix_title_jobs_available", "available_at"),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("url", Text, nullable=False),
    Column("events", JSON, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("secret_number", Integer, nullable=False, server_default=text("1")),
    Column("secret_since", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("delivered_at", Double),
    Column("failed_at", Double),
    Index("ix_webhooks_of_user", "user_id"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("number", _AutoIncrement, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("target", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("available_at", Double, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("attempt_id", Text),
    Column("last_status", Integer),
    Column("last_error", Text),
    Index("ix_deliveries_due", "state", "available_at"),
    Index("ix_deliveries_in_order", "target", "chat_id", "number"),
    Index("ix_deliveries_of_user", "user_id"),
)

worker_sessions = Table(
    "worker_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("worker_id", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("info", JSON, nullable=False),
    Column("in_flight", Integer, nullable=False),
    Column("metrics", JSON),
    Column("last_seen", Double, nullable=False),
    Column("lease_until", Double, nullable=False),
)

unscrubbed = Table(
    "unscrubbed",
    metadata,
    Column("id", Text, primary_key=True),
    Column("erased_at", Double, nullable=False),
)
