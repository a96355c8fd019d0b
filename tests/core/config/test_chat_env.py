"""The published service's `.env` keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixway.core.config import ConfigError, load_config

OVERVIEW = """\
# inference/server/.env
PORT: 8000
POSTGRES_HOST: inference-db
POSTGRES_DB: oasst_inference

DEBUG_API_KEYS: "0000,1111"  # while developing
TRUSTED_CLIENT_KEYS='6969'
export RATE_LIMIT_MESSAGES_USER_TIMES=20
RATE_LIMIT_MESSAGES_USER_SECONDS: 600 # ten minutes
WORKER_INACTIVITY_TIMEOUT: 120  # two
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / ".env"
    path.write_text(OVERVIEW)
    return path


def test_every_key_of_a_file_takes_effect(file: Path) -> None:
    config = load_config(overrides={"chat": {"env_file": str(file)}})
    chat = config.chat
    assert config.gateway.port == 8000
    assert chat.database is not None
    assert chat.database.get_secret_value() == (
        "postgresql://postgres:postgres@inference-db:5432/oasst_inference"
    )
    assert [key.get_secret_value() for key in chat.debug_api_keys] == ["0000", "1111"]
    assert [key.get_secret_value() for key in chat.trusted_client_keys] == ["6969"]
    assert (chat.limits.messages_per_user, chat.limits.per_s) == (20, 600)
    assert chat.workers.inactivity_timeout_s == 120


def test_the_environment_stands_above_the_file_and_our_own_keys_above_both(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORT", "9000")
    monkeypatch.setenv("POSTGRES_PASSWORD", "p@ss/word")
    monkeypatch.setenv("RATE_LIMIT_MESSAGES_USER_TIMES", "30")
    config = load_config(overrides={"chat": {"env_file": str(file), "limits": {"messages_per_user": 40}}})
    assert config.gateway.port == 9000
    assert config.chat.limits.messages_per_user == 40 and config.chat.limits.per_s == 600
    assert config.chat.database is not None and "p%40ss%2Fword@" in config.chat.database.get_secret_value()


def test_the_environment_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "9000")
    assert load_config(overrides={"chat": {"plain_environment": False}}).gateway.port == 30000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("A=1\nPORT=many\n", ":2: PORT"),
        ("POSTGRES_HOST=a\nPOSTGRES_PORT=b", ":2: POSTGRES_PORT"),
        ("?", ":1: "),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "some.env"
    path.write_text(text)
    with pytest.raises(ConfigError, match=place):
        load_config(overrides={"chat": {"env_file": str(path)}})


def test_a_mistake_in_the_environment_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATE_LIMIT_MESSAGES_USER_SECONDS", "soon")
    with pytest.raises(ConfigError, match="environment: RATE_LIMIT_MESSAGES_USER_SECONDS"):
        load_config()


def test_logins_and_secrets_are_read_and_the_published_root_token_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (
        ("API_ROOT", "https://chat.example"),
        ("ALLOW_DEBUG_AUTH", "True"),
        ("AUTH_DISCORD_CLIENT_ID", "us"),
        ("AUTH_DISCORD_CLIENT_SECRET", "hush"),
        ("AUTH_GITHUB_CLIENT_ID", ""),
        ("AUTH_SECRET", ""),
        ("ROOT_TOKEN", "long enough to count"),
    ):
        monkeypatch.setenv(name, value)
    chat = load_config().chat
    assert chat.allow_debug_auth and chat.login.discord is not None and chat.login.github is None
    assert chat.login.discord.client_secret.get_secret_value() == "hush"
    assert chat.login.callback_base_url == "https://chat.example/auth/callback"
    assert chat.secrets.auth_secret is None and chat.secrets.root_token is not None
    monkeypatch.setenv("ROOT_TOKEN", "1234")
    with pytest.raises(ConfigError, match=r"chat\.secrets\.root_token: .*16"):
        load_config()


@pytest.mark.parametrize(
    ("login", "why"),
    [
        ({"github": {"client_id": "us", "client_secret": "x"}}, "public_url is needed"),
        ({"public_url": "http://chat.example"}, "https"),
        ({"oidc": {"a": {"client_id": "us", "issuer": "http://idp.example"}}}, "oidc.a.issuer"),
        ({"oidc": {"a": {"client_id": "us", "issuer": "https://user:pw@idp.example"}}}, "oidc.a.issuer"),
        ({"oidc": {"google": {"client_id": "us", "issuer": "https://a.b"}}}, "another provider's name"),
        (
            {"oidc": {"a": {"client_id": "us", "issuer": "https://a.b", "scopes": ["email"]}}},
            "openid must be among",
        ),
        (
            {"oidc": {"a": {"client_id": "us", "issuer": "https://a.b", "admin_claim": "groups"}}},
            "go together",
        ),
    ],
)
def test_logins_that_could_not_work_are_refused_by_their_place(login: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_config(overrides={"chat": {"login": login}})


@pytest.mark.parametrize(("port", "url"), [(None, "redis://kv:6379"), ("6380", "redis://kv:6380")])
def test_where_redis_is(monkeypatch: pytest.MonkeyPatch, port: str | None, url: str) -> None:
    monkeypatch.setenv("REDIS_HOST", "kv")
    if port is not None:
        monkeypatch.setenv("REDIS_PORT", port)
    redis = load_config().chat.redis
    assert redis is not None and redis.get_secret_value() == url


def test_a_port_of_redis_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_HOST", "kv")
    monkeypatch.setenv("REDIS_PORT", "many")
    with pytest.raises(ConfigError, match="environment: REDIS_PORT"):
        load_config()
