"""Tokens of users."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from radixway.chat.database import ChatDatabase
from radixway.chat.server_secrets import ServerSecrets, load_or_create_secrets
from radixway.chat.service import load_secrets
from radixway.chat.user_tokens import InvalidTokenError, TokenIssuer, TokenTypeError
from radixway.core.config import ChatConfig
from support.chat_house import USER, Clock, House

SECRETS = ServerSecrets("secret", "salt", "root")


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def credentials(database: ChatDatabase, clock: Clock) -> TokenIssuer:
    await House(database).open()
    return TokenIssuer(SECRETS, database, clock)


async def test_a_login_is_good_for_an_hour_and_is_then_refreshed(
    credentials: TokenIssuer, clock: Clock
) -> None:
    pair = await credentials.issue_pair(USER)
    assert credentials.find_user_id(pair.access) == USER
    clock.now += 3601
    with pytest.raises(InvalidTokenError, match="Token expired"):
        credentials.find_user_id(pair.access)
    assert credentials.find_user_id((await credentials.refresh_pair(pair.refresh)).access) == USER


async def test_a_refresh_token_that_comes_twice_ends_all_of_its_login(credentials: TokenIssuer) -> None:
    stolen = await credentials.issue_pair(USER)
    other = await credentials.issue_pair(USER)
    fresh = await credentials.refresh_pair(stolen.refresh)
    for token in (stolen.refresh, fresh.refresh):
        with pytest.raises(InvalidTokenError):
            await credentials.refresh_pair(token)
    await credentials.refresh_pair(other.refresh)


async def test_what_was_revoked_refreshes_nothing(credentials: TokenIssuer) -> None:
    pair = await credentials.issue_pair(USER)
    await credentials.revoke_user(USER)
    with pytest.raises(InvalidTokenError):
        await credentials.refresh_pair(pair.refresh)


async def test_tokens_are_not_taken_for_each_other(credentials: TokenIssuer) -> None:
    pair = await credentials.issue_pair(USER)
    with pytest.raises(TokenTypeError, match="Invalid token type"):
        credentials.find_user_id(pair.refresh)
    with pytest.raises(TokenTypeError):
        await credentials.refresh_pair(pair.access)


@pytest.mark.parametrize("token", ["", "abc", "a.b.c.d.e", "é", "." * 10_000])
async def test_what_is_no_token_is_told_so(credentials: TokenIssuer, token: str) -> None:
    with pytest.raises(InvalidTokenError, match="Invalid token"):
        credentials.find_user_id(token)


async def test_tokens_of_other_secrets_count_for_nothing(
    credentials: TokenIssuer, database: ChatDatabase, clock: Clock
) -> None:
    others = TokenIssuer(ServerSecrets("other", "salt", "root"), database, clock)
    with pytest.raises(InvalidTokenError):
        credentials.find_user_id((await others.issue_pair(USER)).access)


def test_secrets_are_made_once_and_read_by_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "home" / "secrets.json"
    made, new = load_or_create_secrets(path)
    assert new and load_or_create_secrets(path) == (made, False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.auth_secret not in repr(made)
    assert [entry.name for entry in path.parent.iterdir()] == ["secrets.json"]


def test_secrets_that_machines_share_stand_above_those_of_the_file(tmp_path: Path) -> None:
    made = load_secrets(tmp_path, ChatConfig())
    chosen = {"root_token": "r" * 16, "auth_secret": "s" * 16}
    some = load_secrets(tmp_path, ChatConfig.model_validate({"secrets": chosen}))
    assert (some.root_token, some.auth_secret, some.auth_salt) == ("r" * 16, "s" * 16, made.auth_salt)
    every = ChatConfig.model_validate({"secrets": chosen | {"auth_salt": "t"}})
    assert load_secrets(tmp_path / "nowhere", every).auth_salt == "t"
    assert not (tmp_path / "nowhere").exists()
