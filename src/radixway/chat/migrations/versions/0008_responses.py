"""Responses and conversations: what they were asked with, and what they are made of beside words."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
    op.create_table(
        "responses",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("background", sa.Boolean(), nullable=False),
        sa.Column("output", sa.JSON()),
        sa.Column("failure", sa.JSON()),
        sa.Column("deleted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("idempotency_key", sa.Text()),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.id"], name=op.f("fk_responses_message_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_responses_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("message_id", name=op.f("pk_responses")),
        sa.UniqueConstraint("user_id", "idempotency_key", name=op.f("uq_responses_user_id")),
    )
    op.create_table(
        "question_items",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("items", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.id"], name=op.f("fk_question_items_message_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("message_id", name=op.f("pk_question_items")),
    )
    op.create_table(
        "conversations",
        sa.Column("chat_id", sa.Text(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chats.id"], name=op.f("fk_conversations_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", name=op.f("pk_conversations")),
    )
