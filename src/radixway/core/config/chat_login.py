"""The part `login` of the `chat` section: who says who users are."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from radixway.core.config.base import ConfigSection
from radixway.core.config.tenants import DEFAULT_TENANT


def _check_guarded_url(url: str) -> str:
    """Raises ValueError: what goes there can be read and changed on the way."""
    if not is_guarded_url(url):
        raise ValueError("must be https://…, or http:// on this machine")
    return url


def is_guarded_url(url: str) -> bool:
    """Return whether what is sent to `url` is encrypted, or does not leave this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_local(host))


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


Url = Annotated[str, AfterValidator(_check_guarded_url)]
_LongSecret = Annotated[SecretStr, Field(min_length=16)]
_Given = Annotated[_LongSecret | None, BeforeValidator(_none_if_empty)]
_Word = Annotated[str, Field(min_length=1)]


class LoginConfig(ConfigSection):
    """Settings that every provider has."""

    client_id: _Word
    """What the provider calls this gateway."""
    tenant: _Word = DEFAULT_TENANT
    """Whose users they become."""


class OAuthLoginConfig(LoginConfig):
    """A provider that tells who somebody is at a page of its own."""

    client_secret: SecretStr
    """What the provider gave with it."""
    authorize_url: Url
    token_url: Url
    user_url: Url


class DiscordLoginConfig(OAuthLoginConfig):
    """Discord's addresses."""

    authorize_url: Url = "https://discord.com/oauth2/authorize"
    """Where browsers are sent."""
    token_url: Url = "https://discord.com/api/oauth2/token"
    """Where a code becomes a token."""
    user_url: Url = "https://discord.com/api/users/@me"
    """Where a token says whose it is."""


class GithubLoginConfig(OAuthLoginConfig):
    """GitHub's addresses; GitHub Enterprise has others."""

    authorize_url: Url = "https://github.com/login/oauth/authorize"
    """Where browsers are sent."""
    token_url: Url = "https://github.com/login/oauth/access_token"
    """Where a code becomes a token."""
    user_url: Url = "https://api.github.com/user"
    """Where a token says whose it is."""


class OidcLoginConfig(LoginConfig):
    """A provider of OpenID Connect, known by its issuer."""

    issuer: Url
    """Its discovery document is at `ISSUER/.well-known/openid-configuration`."""
    client_secret: SecretStr | None = None
    """None: a public client; PKCE alone."""
    scopes: tuple[_Word, ...] = ("openid", "profile")
    """What is asked for."""
    required_claims: dict[str, str | bool] = Field(default={})
    """That an id token must have, with these values; `{hd: example.org}` lets in that domain alone."""
    admin_claim: _Word | None = None
    """The claim that makes administrators: with each login the role follows it."""
    admin_values: tuple[_Word, ...] = ()
    """One of them must be the claim's value, or among its values."""

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if "openid" not in self.scopes:
            raise ValueError("scopes: openid must be among them")
        if bool(self.admin_claim) != bool(self.admin_values):
            raise ValueError("admin_claim and admin_values go together")
        return self


class GoogleLoginConfig(OidcLoginConfig):
    """Google."""

    issuer: Url = "https://accounts.google.com"


class ChatLoginConfig(ConfigSection):
    """Providers with which users may log in; those not configured are not offered."""

    public_url: Url | None = None
    """Of this gateway, as browsers reach it."""
    callback_root: Url | None = None
    """The address to which providers send users back, without the provider's name; by default
    PUBLIC_URL/auth/callback.
    """
    discord: DiscordLoginConfig | None = None
    github: GithubLoginConfig | None = None
    google: GoogleLoginConfig | None = None
    oidc: dict[Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_-]{0,31}$")], OidcLoginConfig] = Field(
        default={}
    )
    """Others, by a name of your choice: `/auth/login/NAME`."""

    @model_validator(mode="after")
    def _check_callback(self) -> Self:
        taken = {"debug", "discord", "github", "google"} & set(self.oidc)
        if taken:
            raise ValueError(f"oidc: {', '.join(sorted(taken))} is another provider's name")
        some = self.discord or self.github or self.google or self.oidc
        if some and self.public_url is None and self.callback_root is None:
            raise ValueError("public_url is needed: providers send users back there")
        return self

    @property
    def callback_base_url(self) -> str:
        """The address to which providers send users back, without the provider's name."""
        return (self.callback_root or f"{(self.public_url or '').rstrip('/')}/auth/callback").rstrip("/")


class ChatSecretsConfig(ConfigSection):
    """Secrets that processes on several machines share; what is not given is made, in RADIXWAY_HOME."""

    auth_secret: _Given = None
    """Tokens are encrypted with what is derived from it and the salt."""
    auth_salt: Annotated[SecretStr | None, BeforeValidator(_none_if_empty)] = None
    """Salts what is made of `auth_secret`; at least 16 characters."""
    root_token: _Given = None
    """The administrator's."""
