"""A database of before API keys."""

from __future__ import annotations

from sqlalchemy import text

from radixway.chat.api_keys import ApiKeyStore, KeyScope
from radixway.chat.database import ChatDatabase
from radixway.chat.migrations import migrate


async def test_users_of_before_can_have_keys(database_url: str) -> None:
    database = ChatDatabase(database_url)
    await migrate(database, "0008")
    async with database.write_transaction() as write:
        await write.execute(
            text(
                "INSERT INTO users (id, tenant, provider, provider_account_id, display_name, created_at)"
                " VALUES ('eve', 'acme', 'debug', 'eve', 'Eve', 0)"
            )
        )
    await migrate(database)
    keys = ApiKeyStore(database, lambda: 1.0)
    key, told = await keys.create_key("laptop", KeyScope.USER, user_id="eve")
    found = await keys.find_key(told)
    assert found is not None and found[1] is not None and (key.tenant, found[1].role) == ("acme", "user")
    await database.aclose()
