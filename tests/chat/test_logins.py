"""Logins at other servers: who may come back, as whom, and what does not count."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from radixway.chat.accounts import UserAccounts
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.login import LoginError, LoginService
from radixway.chat.login.providers import ask
from radixway.chat.migrations import migrate
from radixway.chat.records import User
from radixway.chat.server_secrets import load_or_create_secrets
from radixway.chat.user_tokens import TokenIssuer
from radixway.core.config.chat import ChatLoginConfig
from support.chat_house import Clock
from support.identity_provider import CLIENT, IdentityProvider, identity_provider


class Site:
    """Ours, with one provider under four names."""

    def __init__(self, database: ChatDatabase, provider: IdentityProvider, home: Path, **oidc: Any) -> None:
        self.clock = Clock(time.time())
        kept, _ = load_or_create_secrets(home / "secrets.json")
        self.accounts = UserAccounts(database, self.clock)
        self.credentials = TokenIssuer(kept, database, self.clock)
        section = ChatLoginConfig.model_validate(
            {
                "public_url": "https://chat.example",
                "discord": provider.oauth(),
                "github": provider.oauth() | {"tenant": "acme"},
                "oidc": {"idp": provider.oidc(**oidc), "again": provider.oidc()},
            }
        )
        self.provider = provider
        self.logins = LoginService(section, kept, database, self.clock, self.accounts, self.credentials)

    async def login(self, name: str = "idp") -> User:
        """Whoever is at the provider's browser, logged in here."""
        back = self.provider.visit(await self.logins.begin(name))
        pair = await self.logins.end(name, back["code"], back["state"])
        return await self.accounts.find_user(self.credentials.find_user_id(pair.access))


@pytest.fixture
async def provider() -> AsyncIterator[IdentityProvider]:
    async with identity_provider() as provider:
        yield provider


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[ChatDatabase]:
    """For what no database makes a difference to."""
    opened = ChatDatabase(f"sqlite:///{tmp_path / 'logins.db'}")
    await migrate(opened)
    yield opened
    await opened.aclose()


@pytest.fixture
def site(file: ChatDatabase, provider: IdentityProvider, tmp_path: Path) -> Site:
    return Site(file, provider, tmp_path)


async def test_somebody_logs_in_and_is_the_same_the_next_time(
    database: ChatDatabase, provider: IdentityProvider, tmp_path: Path
) -> None:
    site = Site(database, provider, tmp_path)
    eve = await site.login()
    assert (eve.provider, eve.provider_account_id, eve.display_name) == (site.provider.url, "42", "Eve")
    site.provider.user["name"] = "Eva"
    assert (await site.login()).id == eve.id
    site.provider.user["sub"] = "43"
    assert (await site.login()).id != eve.id


async def test_accounts_are_never_joined_by_name_or_address(site: Site) -> None:
    site.provider.user |= {"email": "eve@example.org", "email_verified": True}
    site.provider.page |= {"email": "eve@example.org"}
    discord, github, idp = await site.login("discord"), await site.login("github"), await site.login()
    assert len({discord.id, github.id, idp.id}) == 3
    assert (discord.tenant, github.tenant) == ("default", "acme")
    assert (await site.login("again")).id == idp.id  # the same issuer by another name: the same person


async def test_a_login_serves_once_and_for_ten_minutes(
    database: ChatDatabase, provider: IdentityProvider, tmp_path: Path
) -> None:
    site = Site(database, provider, tmp_path)
    back = site.provider.visit(await site.logins.begin("idp"))
    await site.logins.end("idp", **back)
    with pytest.raises(LoginError, match="already been completed"):
        await site.logins.end("idp", **back)
    late = site.provider.visit(await site.logins.begin("idp"))
    site.clock.now += 601
    with pytest.raises(LoginError, match="too long"):
        await site.logins.end("idp", **late)


async def test_a_login_ends_where_it_began(site: Site) -> None:
    back = site.provider.visit(await site.logins.begin("idp"))
    with pytest.raises(LoginError, match="another provider"):
        await site.logins.end("again", **back)
    for state in ("", "x", back["state"][:-2], "a.b.c.d.e"):
        with pytest.raises(LoginError, match="started here"):
            await site.logins.end("idp", back["code"], state)
    with pytest.raises(ChatNotFoundError, match="not configured"):
        await site.logins.begin("google")


async def test_who_comes_from_another_issuer_is_not_let_in(site: Site) -> None:
    for issuer, counts in (("https://other.example", False), (site.provider.url, True)):
        back = site.provider.visit(await site.logins.begin("idp"))
        if counts:
            await site.logins.end("idp", back["code"], back["state"], issuer)
        else:
            with pytest.raises(LoginError, match="another issuer"):
                await site.logins.end("idp", back["code"], back["state"], issuer)


async def test_a_code_that_was_stolen_is_worth_nothing_without_the_login_it_is_of(site: Site) -> None:
    """PKCE: the verifier is in the state of the login that asked, and in no other."""
    victim = site.provider.visit(await site.logins.begin("idp"))
    thief = site.provider.visit(await site.logins.begin("idp"))
    with pytest.raises(LoginError, match="refused"):
        await site.logins.end("idp", victim["code"], thief["state"])


@pytest.mark.parametrize(
    "spoils",
    [
        {"iss": "https://other.example"},
        {"aud": "another client"},
        {"aud": [CLIENT, "another"]},
        {"azp": "another client"},
        {"nonce": "of another login"},
        {"nonce": None},
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"iat": 10**11},
        {"sub": None},
        {"sub": ""},
        {"sub": 42},
        {"sub": "a\x00b"},
        {"sub": "x" * 300},
    ],
    ids=str,
)
async def test_an_id_token_that_is_not_for_this_login_does_not_count(
    site: Site, spoils: dict[str, Any]
) -> None:
    site.provider.spoils = spoils
    with pytest.raises(LoginError) as failed:
        await site.login()
    assert failed.value.status == 401 and await site.accounts.list_users() == []


async def test_a_token_that_others_signed_does_not_count(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, now = site.provider, int(time.time())
    claims = {"iss": provider.url, "aud": CLIENT, "iat": now, "exp": now + 60, "sub": "42"}
    published = json.dumps(provider.key.as_dict(private=False))
    for header, key in (
        ({"alg": "ES256", "kid": "1"}, ECKey.generate_key("P-256")),
        ({"alg": "ES256", "kid": "unknown"}, provider.key),
        ({"alg": "HS256", "kid": "1"}, OctKey.import_key(published)),
        ({"alg": "none"}, OctKey.import_key("x" * 32)),
    ):

        def forged(nonce: str | None, header: Any = header, key: Any = key) -> str:
            return jwt.encode(header, claims | {"nonce": nonce}, key, algorithms=[header["alg"]])

        monkeypatch.setattr(provider, "id_token", forged)
        with pytest.raises(LoginError, match="is invalid"):
            await site.login()


async def test_keys_are_kept_and_asked_for_again_when_the_provider_changes_them(site: Site) -> None:
    await site.login()
    await site.login()
    assert site.provider.asked.count("/keys") == 1
    assert site.provider.asked.count("/.well-known/openid-configuration") == 1
    site.provider.rotate()
    with pytest.raises(LoginError):  # strangers' keys do not make us ask all the time
        await site.login()
    site.clock.now += 31
    await site.login()
    assert site.provider.asked.count("/keys") == 2
    site.clock.now += 3601
    site.provider.spoils = {"exp": int(site.clock.now) + 60, "iat": int(site.clock.now)}
    await site.login()
    assert site.provider.asked.count("/keys") == 3


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://other.example"},
        {"token_endpoint": "http://other.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    ids=str,
)
async def test_a_discovery_document_that_cannot_be_trusted_is_not_used(
    site: Site, document: dict[str, Any]
) -> None:
    site.provider.document = document
    with pytest.raises(LoginError) as failed:
        await site.logins.begin("idp")
    assert failed.value.status == 503


async def test_a_provider_that_is_down_is_told_in_words_and_comes_back(site: Site) -> None:
    site.provider.down = True
    with pytest.raises(LoginError, match="is unavailable") as failed:
        await site.logins.begin("idp")
    assert failed.value.status == 503
    site.provider.down = False
    assert (await site.login()).display_name == "Eve"


@pytest.mark.parametrize("body", [b"[1]", b'{"a": "\xff"}', b'{"a": ' + b"[" * 100_000, b"x" * (2 << 20)])
async def test_an_answer_that_is_no_object_of_json_is_told_in_words(body: bytes) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body)

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        with pytest.raises(LoginError, match="did not answer a JSON object"):
            await ask(str(server.make_url("/")))


async def test_a_secret_goes_into_the_form_where_only_that_will_do(site: Site) -> None:
    site.provider.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert (await site.login()).display_name == "Eve"


async def test_a_page_that_does_not_say_who_it_is_lets_nobody_in(site: Site) -> None:
    for account in (None, "", True, ["42"], "a\x00"):
        site.provider.page["id"] = account
        with pytest.raises(LoginError):
            await site.login("discord")
    site.provider.page["id"] = 42  # GitHub's are numbers
    assert (await site.login("github")).provider_account_id == "42"


async def test_only_users_with_required_claims_may_come(
    file: ChatDatabase, provider: IdentityProvider, tmp_path: Path
) -> None:
    site = Site(file, provider, tmp_path, required_claims={"hd": "example.org", "email_verified": True})
    with pytest.raises(LoginError, match="'hd'") as failed:
        await site.login()
    assert failed.value.status == 403
    provider.user |= {"hd": "example.org", "email_verified": True}
    assert (await site.login()).display_name == "Eve"


async def test_the_role_follows_the_claim_that_makes_administrators(
    file: ChatDatabase, provider: IdentityProvider, tmp_path: Path
) -> None:
    site = Site(file, provider, tmp_path, admin_claim="groups", admin_values=["admins"])
    for groups, role in ((["users", "admins"], "admin"), ("admins", "admin"), (["users"], "user")):
        provider.user["groups"] = groups
        await site.login()
        assert (await site.login()).role == role


async def test_who_was_deleted_comes_back_as_somebody_new(site: Site) -> None:
    eve = await site.login()
    await site.accounts.delete_user(eve.id)
    assert (await site.login()).id != eve.id
