"""API keys: what they open, for how long, and that only their holders know them."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from chat_house import USER, House
from radixway.chat.accounts import Accounts
from radixway.chat.credentials import BadToken
from radixway.chat.database import Database
from radixway.chat.errors import NotFound
from radixway.chat.keys import Keys, KeyScope


@pytest.fixture
async def house(database: Database) -> House:
    return await House(database).open()


@pytest.fixture
def keys(house: House) -> Keys:
    return Keys(house.database, house.clock)


async def test_a_key_opens_as_its_user_until_it_expires(house: House, keys: Keys) -> None:
    key, told = await keys.create("laptop", KeyScope.USER, user_id=USER, lasts_s=60)
    found = await keys.find(told)
    assert found is not None and found[0].id == key.id and found[1] is not None and found[1].id == USER
    assert await keys.find(told + "x") is None and await keys.find(key.shown) is None
    house.clock.now += 60
    with pytest.raises(BadToken, match="expired"):
        await keys.find(told)


async def test_no_key_stands_in_the_database(house: House, keys: Keys) -> None:
    key, told = await keys.create("laptop", KeyScope.USER, user_id=USER)
    _, again = await keys.rotate(key.id)
    async with house.database.read() as read:
        rows = str((await read.execute(text("SELECT * FROM api_keys"))).all())
    assert told not in rows and again not in rows and key.shown in rows


async def test_a_rotated_key_serves_as_long_as_was_said_and_the_new_one_its_whole_life(
    house: House, keys: Keys
) -> None:
    old, told = await keys.create("ci", KeyScope.USER, user_id=USER, lasts_s=100)
    house.clock.now += 50
    new, other = await keys.rotate(old.id, overlap_s=10)
    assert (new.name, new.scope, new.user_id) == (old.name, old.scope, old.user_id) and other != told
    assert await keys.find(told) is not None
    house.clock.now += 10
    with pytest.raises(BadToken):
        await keys.find(told)
    house.clock.now += 89
    assert await keys.find(other) is not None


async def test_rotating_does_not_lengthen_the_life_of_the_old_key(house: House, keys: Keys) -> None:
    old, told = await keys.create("ci", KeyScope.USER, user_id=USER, lasts_s=5)
    await keys.rotate(old.id, overlap_s=1000)
    house.clock.now += 5
    with pytest.raises(BadToken):
        await keys.find(told)


async def test_what_is_revoked_opens_nothing_and_only_its_owner_may(house: House, keys: Keys) -> None:
    key, told = await keys.create("laptop", KeyScope.USER, user_id=USER)
    with pytest.raises(NotFound):
        await keys.revoke(key.id, user_id="somebody else")
    await keys.revoke(key.id, user_id=USER)
    assert await keys.find(told) is None and await keys.all() == []
    with pytest.raises(NotFound):
        await keys.rotate(key.id)


async def test_keys_go_with_their_user(house: House, keys: Keys) -> None:
    _, told = await keys.create("laptop", KeyScope.USER, user_id=USER)
    await Accounts(house.database, house.clock).delete(USER)
    assert await keys.find(told) is None and await keys.all() == []
    with pytest.raises(NotFound):
        await keys.create("another", KeyScope.USER, user_id=USER)


async def test_when_a_key_was_used_is_known_to_the_hour(house: House, keys: Keys) -> None:
    _, told = await keys.create("laptop", KeyScope.USER, user_id=USER)
    first = house.clock.now
    for later, used_at in ((0, first), (3599, first), (3600, first + 3600)):
        house.clock.now = first + later
        await keys.find(told)
        assert [key.used_at for key in await keys.all(user_id=USER)] == [used_at]


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
    keys: Keys, scope: KeyScope, more: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="scope"):
        await keys.create("k", scope, **more)
    assert await keys.all() == []
