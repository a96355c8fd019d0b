"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("provider_account_id", sa.Text, nullable=False),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, server_default="user", nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("deleted", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.UniqueConstraint("tenant", "provider", "provider_account_id"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key_hash", sa.Text, nullable=False, unique=True),
        sa.Column("trusted", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_table(
        "chats",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("modified_at", sa.Double, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("hidden", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("archived", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("allow_data_use", sa.Boolean, server_default=sa.true(), nullable=False),
        sa.Column("active_thread_tail_message_id", sa.Text),
    )
    op.create_index("ix_chats_of_user", "chats", ["user_id", "id"])

    op.create_table(
        "refresh_tokens",
        sa.Column("token_hash", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("used_at", sa.Double),
        sa.Column("revoked", sa.Boolean, server_default=sa.false(), nullable=False),
    )
    op.create_index("ix_refresh_tokens_of_family", "refresh_tokens", ["family"])
    op.create_index("ix_refresh_tokens_of_user", "refresh_tokens", ["user_id"])

    op.create_table(
        "messages",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("chat_id", sa.Text, sa.ForeignKey("chats.id", ondelete="CASCADE"), nullable=False),
        sa.Column("parent_id", sa.Text, sa.ForeignKey("messages.id", ondelete="CASCADE")),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("content", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("score", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("work_parameters", sa.JSON),
        sa.Column("model", sa.Text),
        sa.Column("worker_id", sa.Text),
        sa.Column("worker_config", sa.JSON),
        sa.Column("work_begin_at", sa.Double),
        sa.Column("first_token_at", sa.Double),
        sa.Column("work_end_at", sa.Double),
        sa.Column("usage", sa.JSON),
        sa.Column("used_plugin", sa.JSON),
        sa.Column("safe_content", sa.Text),
        sa.Column("safety_level", sa.Integer),
        sa.Column("safety_label", sa.Text),
        sa.Column("safety_rots", sa.Text),
        sa.Column("idempotency_key", sa.Text),
        sa.UniqueConstraint("chat_id", "idempotency_key"),
    )
    op.create_index("ix_messages_of_chat", "messages", ["chat_id", "id"])

    op.create_table(
        "evaluations",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column(
            "selected_message_id", sa.Text, sa.ForeignKey("messages.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("inferior_message_ids", sa.JSON, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_index("ix_evaluations_of_message", "evaluations", ["selected_message_id"])

    op.create_table(
        "jobs",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True, primary_key=True
        ),
        sa.Column(
            "message_id",
            sa.Text,
            sa.ForeignKey("messages.id", ondelete="CASCADE"),
            nullable=False,
            unique=True,
        ),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("available_at", sa.Double, nullable=False),
        sa.Column("deadline", sa.Double),
        sa.Column("attempts", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("attempt_id", sa.Text, unique=True),
        sa.Column("lease_owner", sa.Text),
        sa.Column("lease_until", sa.Double),
        sa.Column("last_error", sa.Text),
    )
    op.create_index("ix_jobs_of_user", "jobs", ["user_id"])
    op.create_index("ix_jobs_ready", "jobs", ["state", "queue", "priority", "number"])

    op.create_table(
        "reports",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("message_id", sa.Text, sa.ForeignKey("messages.id", ondelete="CASCADE"), nullable=False),
        sa.Column("report_type", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_index("ix_reports_of_message", "reports", ["message_id"])
    op.create_table(
        "rates",
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("whole_at", sa.Double, nullable=False),
    )
