"""A database of before webhooks and titles by the model."""

from __future__ import annotations

from sqlalchemy import text

from radixway.chat.chats import Chats
from radixway.chat.database import Database
from radixway.chat.messages import Messages
from radixway.chat.migrations import migrate


async def test_titles_of_before_count_as_their_users_own(database_url: str) -> None:
    database = Database(database_url)
    await migrate(database, "0005")
    async with database.write() as write:
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
    chats = Chats(database, lambda: 0.0)
    assert (await chats.find("eve", "named")).titled_by == "user"
    assert (await chats.find("eve", "nameless")).titled_by is None
    (said,) = await Messages(database, lambda: 0.0).of_chat("eve", "named")
    assert said.content == "hello" and said.version == 0
    await chats.delete("eve", "named")
    await database.aclose()
