"""API keys: what they open, for how long, and that only their holders know them."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from radixway.chat.accounts import UserAccounts
from radixway.chat.api_keys import ApiKeyStore, KeyScope
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.user_tokens import InvalidTokenError
from support.chat_house import USER, House


@pytest.fixture
async def house(database: ChatDatabase) -> House:
    return await House(database).open()


@pytest.fixture
def keys(house: House) -> ApiKeyStore:
    return ApiKeyStore(house.database, house.clock)


async def test_a_key_opens_as_its_user_until_it_expires(house: House, keys: ApiKeyStore) -> None:
    key, told = await keys.create_key("laptop", KeyScope.USER, user_id=USER, lasts_s=60)
    found = await keys.find_key(told)
    assert found is not None and found[0].id == key.id and found[1] is not None and found[1].id == USER
    assert await keys.find_key(told + "x") is None and await keys.find_key(key.shown) is None
    house.clock.now += 60
    with pytest.raises(InvalidTokenError, match="expired"):
        await keys.find_key(told)


async def test_no_key_stands_in_the_database(house: House, keys: ApiKeyStore) -> None:
    key, told = await keys.create_key("laptop", KeyScope.USER, user_id=USER)
    _, again = await keys.rotate_key(key.id)
    async with house.database.read_connection() as read:
        rows = str((await read.execute(text("SELECT * FROM api_keys"))).all())
    assert told not in rows and again not in rows and key.shown in rows


async def test_a_rotated_key_serves_as_long_as_was_said_and_the_new_one_its_whole_life(
    house: House, keys: ApiKeyStore
) -> None:
    old, told = await keys.create_key("ci", KeyScope.USER, user_id=USER, lasts_s=100)
    house.clock.now += 50
    new, other = await keys.rotate_key(old.id, overlap_s=10)
    assert (new.name, new.scope, new.user_id) == (old.name, old.scope, old.user_id) and other != told
    assert await keys.find_key(told) is not None
    house.clock.now += 10
    with pytest.raises(InvalidTokenError):
        await keys.find_key(told)
    house.clock.now += 89
    assert await keys.find_key(other) is not None


async def test_rotating_does_not_lengthen_the_life_of_the_old_key(house: House, keys: ApiKeyStore) -> None:
    old, told = await keys.create_key("ci", KeyScope.USER, user_id=USER, lasts_s=5)
    await keys.rotate_key(old.id, overlap_s=1000)
    house.clock.now += 5
    with pytest.raises(InvalidTokenError):
        await keys.find_key(told)


async def test_what_is_revoked_opens_nothing_and_only_its_owner_may(house: House, keys: ApiKeyStore) -> None:
    key, told = await keys.create_key("laptop", KeyScope.USER, user_id=USER)
    with pytest.raises(ChatNotFoundError):
        await keys.revoke_key(key.id, user_id="somebody else")
    await keys.revoke_key(key.id, user_id=USER)
    assert await keys.find_key(told) is None and await keys.list_keys() == []
    with pytest.raises(ChatNotFoundError):
        await keys.rotate_key(key.id)


async def test_keys_go_with_their_user(house: House, keys: ApiKeyStore) -> None:
    _, told = await keys.create_key("laptop", KeyScope.USER, user_id=USER)
    await UserAccounts(house.database, house.clock).delete_user(USER)
    assert await keys.find_key(told) is None and await keys.list_keys() == []
    with pytest.raises(ChatNotFoundError):
        await keys.create_key("another", KeyScope.USER, user_id=USER)


async def test_when_a_key_was_used_is_known_to_the_hour(house: House, keys: ApiKeyStore) -> None:
    _, told = await keys.create_key("laptop", KeyScope.USER, user_id=USER)
    first = house.clock.now
    for later, used_at in ((0, first), (3599, first), (3600, first + 3600)):
        house.clock.now = first + later
        await keys.find_key(told)
        assert [key.used_at for key in await keys.list_keys(user_id=USER)] == [used_at]


@pytest.mark.parametrize(
    ("scope", "more"),
    [
        (KeyScope.USER, {}),
        (KeyScope.WORKER, {"user_id": USER}),
        (KeyScope.TRUSTED, {"user_id": USER}),
        (KeyScope.ADMIN, {"client": "website"}),
    ],
)
async def test_a_scope_that_does_not_fit_is_refused_in_words(
    keys: ApiKeyStore, scope: KeyScope, more: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="scope"):
        await keys.create_key("k", scope, **more)
    assert await keys.list_keys() == []
