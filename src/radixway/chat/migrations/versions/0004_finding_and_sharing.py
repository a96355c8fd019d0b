"""Search, tags, share links."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_SETTLED = "content IS NOT NULL AND state NOT IN ('pending', 'in_progress')"
_NEW_SETTLED = "new.content IS NOT NULL AND new.state NOT IN ('pending', 'in_progress')"
_OLD_ROW = "(SELECT number FROM search_rows WHERE message_id = old.id)"
_ENTER = """
    INSERT OR IGNORE INTO search_rows (message_id) VALUES (new.id);
    INSERT INTO message_search (rowid, content)
        SELECT number, new.content FROM search_rows WHERE message_id = new.id;
"""
_SQLITE = (
    # Rows of `messages` have no numbers that outlive a VACUUM.
    "CREATE TABLE search_rows (number INTEGER PRIMARY KEY, message_id TEXT NOT NULL UNIQUE)",
    "CREATE VIRTUAL TABLE message_search USING fts5(content, tokenize='trigram')",
    f"CREATE TRIGGER search_insert AFTER INSERT ON messages WHEN {_NEW_SETTLED} BEGIN {_ENTER} END",
    f"""CREATE TRIGGER search_update AFTER UPDATE OF content, state ON messages WHEN {_NEW_SETTLED} BEGIN
        DELETE FROM message_search WHERE rowid = {_OLD_ROW};
        {_ENTER}
    END""",
    f"""CREATE TRIGGER search_delete AFTER DELETE ON messages BEGIN
        DELETE FROM message_search WHERE rowid = {_OLD_ROW};
        DELETE FROM search_rows WHERE message_id = old.id;
    END""",
    f"INSERT INTO search_rows (message_id) SELECT id FROM messages WHERE {_SETTLED}",
    """INSERT INTO message_search (rowid, content)
        SELECT number, content FROM search_rows JOIN messages ON id = message_id""",
)
_POSTGRESQL = (
    """CREATE FUNCTION radixway_grams(words text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT coalesce(array_agg(DISTINCT one || next), '{}') FROM (
            SELECT one, lead(one) OVER (ORDER BY place) AS next
            FROM unnest(string_to_array(lower(words), NULL)) WITH ORDINALITY AS each(one, place)
        ) AS pairs WHERE next IS NOT NULL
    $$""",
    f"CREATE INDEX ix_messages_search ON messages USING gin (radixway_grams(content)) WHERE {_SETTLED}",
)


def upgrade() -> None:
    op.create_table(
        "chat_tags",
        sa.Column("chat_id", sa.Text, sa.ForeignKey("chats.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("tag", sa.Text, primary_key=True),
    )
    op.create_table(
        "shares",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("token_hash", sa.Text, nullable=False, unique=True),
        sa.Column("chat_id", sa.Text, sa.ForeignKey("chats.id", ondelete="CASCADE"), nullable=False),
        sa.Column("message_id", sa.Text, sa.ForeignKey("messages.id", ondelete="CASCADE"), nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
    )
    op.create_index("ix_shares_of_chat", "shares", ["chat_id"])
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in _SQLITE if is_sqlite else _POSTGRESQL:
        op.get_bind().exec_driver_sql(statement)
