"""Webhooks with what is to be delivered to them, titles by the model, budgets of tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("chats", sa.Column("titled_by", sa.Text))
    # Who gave the titles that there are is not known: none of them is to be overwritten.
    op.get_bind().exec_driver_sql("UPDATE chats SET titled_by = 'user' WHERE title IS NOT NULL")
    op.create_table(
        "budgets",
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("whole_at", sa.Double, nullable=False),
    )
    op.create_table(
        "title_jobs",
        sa.Column("chat_id", sa.Text, primary_key=True),
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("available_at", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("attempt_id", sa.Text),
    )
    op.create_index("ix_title_jobs_available", "title_jobs", ["available_at"])
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("events", sa.JSON, nullable=False),
        sa.Column("enabled", sa.Boolean, server_default=sa.true(), nullable=False),
        sa.Column("secret_number", sa.Integer, server_default=sa.text("1"), nullable=False),
        sa.Column("secret_since", sa.Double, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("delivered_at", sa.Double),
        sa.Column("failed_at", sa.Double),
    )
    op.create_index("ix_webhooks_of_user", "webhooks", ["user_id"])
    op.create_table(
        "deliveries",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True, primary_key=True
        ),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("chat_id", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("available_at", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("attempt_id", sa.Text),
        sa.Column("last_status", sa.Integer),
        sa.Column("last_error", sa.Text),
    )
    op.create_index("ix_deliveries_due", "deliveries", ["state", "available_at"])
    op.create_index("ix_deliveries_in_order", "deliveries", ["target", "chat_id", "number"])
    op.create_index("ix_deliveries_of_user", "deliveries", ["user_id"])
