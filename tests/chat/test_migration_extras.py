"""A database of before webhooks and titles by the model."""

from __future__ import annotations

from sqlalchemy import text

from radixway.chat.chats import ChatStore
from radixway.chat.database import ChatDatabase
from radixway.chat.messages import MessageStore
from radixway.chat.migrations import migrate


async def test_titles_of_before_count_as_their_users_own(database_url: str) -> None:
    database = ChatDatabase(database_url)
    await migrate(database, "0005")
    async with database.write_transaction() as write:
        await write.execute(
            text(
                "INSERT INTO users (id, tenant, provider, provider_account_id, display_name, created_at)"
                " VALUES ('eve', 'default', 'local', 'eve', 'Eve', 0)"
            )
        )
        for chat, title in (("named", "'Trees'"), ("nameless", "NULL")):
            await write.execute(
                text(
                    "INSERT INTO chats (id, user_id, created_at, modified_at, title)"
                    f" VALUES ('{chat}', 'eve', 0, 0, {title})"
                )
            )
        await write.execute(
            text(
                "INSERT INTO messages (id, chat_id, role, state, content, created_at)"
                " VALUES ('said', 'named', 'prompter', 'manual', 'hello', 0)"
            )
        )
    await migrate(database)
    chats = ChatStore(database, lambda: 0.0)
    assert (await chats.find_chat("eve", "named")).titled_by == "user"
    assert (await chats.find_chat("eve", "nameless")).titled_by is None
    (said,) = await MessageStore(database, lambda: 0.0).list_messages("eve", "named")
    assert said.content == "hello" and said.version == 0
    await chats.delete_chat("eve", "named")
    await database.aclose()
