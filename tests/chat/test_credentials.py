"""Tokens of users."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from chat_house import USER, Clock, House
from radixway.chat.credentials import BadToken, Credentials, WrongType
from radixway.chat.database import Database
from radixway.chat.room import secrets_of
from radixway.chat.secrets import Secrets, read_or_make
from radixway.config import ChatSection

SECRETS = Secrets("secret", "salt", "root")


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def credentials(database: Database, clock: Clock) -> Credentials:
    await House(database).open()
    return Credentials(SECRETS, database, clock)


async def test_a_login_is_good_for_an_hour_and_is_then_refreshed(
    credentials: Credentials, clock: Clock
) -> None:
    pair = await credentials.login(USER)
    assert credentials.user_of(pair.access) == USER
    clock.now += 3601
    with pytest.raises(BadToken, match="Token expired"):
        credentials.user_of(pair.access)
    assert credentials.user_of((await credentials.refresh(pair.refresh)).access) == USER


async def test_a_refresh_token_that_comes_twice_ends_all_of_its_login(credentials: Credentials) -> None:
    stolen = await credentials.login(USER)
    other = await credentials.login(USER)
    fresh = await credentials.refresh(stolen.refresh)
    for token in (stolen.refresh, fresh.refresh):
        with pytest.raises(BadToken):
            await credentials.refresh(token)
    await credentials.refresh(other.refresh)


async def test_what_was_revoked_refreshes_nothing(credentials: Credentials) -> None:
    pair = await credentials.login(USER)
    await credentials.revoke(USER)
    with pytest.raises(BadToken):
        await credentials.refresh(pair.refresh)


async def test_tokens_are_not_taken_for_each_other(credentials: Credentials) -> None:
    pair = await credentials.login(USER)
    with pytest.raises(WrongType, match="Invalid token type"):
        credentials.user_of(pair.refresh)
    with pytest.raises(WrongType):
        await credentials.refresh(pair.access)


@pytest.mark.parametrize("token", ["", "abc", "a.b.c.d.e", "é", "." * 10_000])
async def test_what_is_no_token_is_told_so(credentials: Credentials, token: str) -> None:
    with pytest.raises(BadToken, match="Invalid token"):
        credentials.user_of(token)


async def test_tokens_of_other_secrets_count_for_nothing(
    credentials: Credentials, database: Database, clock: Clock
) -> None:
    others = Credentials(Secrets("other", "salt", "root"), database, clock)
    with pytest.raises(BadToken):
        credentials.user_of((await others.login(USER)).access)


def test_secrets_are_made_once_and_read_by_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "home" / "secrets.json"
    made, new = read_or_make(path)
    assert new and read_or_make(path) == (made, False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.auth_secret not in repr(made)
    assert [entry.name for entry in path.parent.iterdir()] == ["secrets.json"]


def test_secrets_that_machines_share_stand_above_those_of_the_file(tmp_path: Path) -> None:
    made = secrets_of(tmp_path, ChatSection())
    chosen = {"root_token": "r" * 16, "auth_secret": "s" * 16}
    some = secrets_of(tmp_path, ChatSection.model_validate({"secrets": chosen}))
    assert (some.root_token, some.auth_secret, some.auth_salt) == ("r" * 16, "s" * 16, made.auth_salt)
    every = ChatSection.model_validate({"secrets": chosen | {"auth_salt": "t"}})
    assert secrets_of(tmp_path / "nowhere", every).auth_salt == "t"
    assert not (tmp_path / "nowhere").exists()
