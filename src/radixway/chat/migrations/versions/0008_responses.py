"""Responses and conversations: what they were asked with, and what they are made of beside words."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "responses",
        sa.Column("message_id", sa.Text, sa.ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("background", sa.Boolean, nullable=False),
        sa.Column("output", sa.JSON),
        sa.Column("failure", sa.JSON),
        sa.Column("deleted", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.UniqueConstraint("user_id", "idempotency_key"),
    )
    op.create_table(
        "question_items",
        sa.Column("message_id", sa.Text, sa.ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("items", sa.JSON, nullable=False),
    )
    op.create_table(
        "conversations",
        sa.Column("chat_id", sa.Text, sa.ForeignKey("chats.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("labels", sa.JSON, nullable=False),
    )
