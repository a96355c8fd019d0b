"""The interface of login providers, and those with OAuth 2 and a user page: Discord, GitHub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from radixway.chat.login.provider_requests import LoginError, ask
from radixway.chat.records import UserRole
from radixway.core.config.chat import OAuthLoginConfig


@dataclass(frozen=True, slots=True)
class ProviderIdentity:
    """A user's identity, as a provider states it."""

    provider: str
    """As it is kept with users."""
    account: str
    """By this alone the provider's users are told apart: names and addresses change hands."""
    name: str
    role: UserRole | None = None
    """None: it says nothing of what they may do."""


@dataclass(frozen=True, slots=True)
class LoginCallback:
    """The parameters of a callback, and what this server remembered for it."""

    code: str
    verifier: str
    """Of PKCE."""
    nonce: str
    redirect_uri: str
    issuer: str | None = None
    """As the provider said at the way back (RFC 9207); None: it did not."""


class IdentityProvider(Protocol):
    """Identifies users."""

    tenant: str

    async def authorize(self) -> tuple[str, dict[str, str]]:
        """Return the URL to send users to, and the provider's own parameters. Raises LoginError."""
        ...

    async def identify(self, back: LoginCallback) -> ProviderIdentity:
        """Return the user who came back with `back`. Raises LoginError."""
        ...


class OAuthProvider:
    """OAuth 2 with a page that describes the user of a token: Discord and GitHub."""

    def __init__(self, name: str, section: OAuthLoginConfig, *, scope: str, names: tuple[str, ...]) -> None:
        """`names`: fields of that page that may hold what a user is called, the first that does counts."""
        self.tenant = section.tenant
        self._name = name
        self._section = section
        self._scope = scope
        self._names = names

    async def authorize(self) -> tuple[str, dict[str, str]]:
        """Return the authorization URL and this provider's parameters."""
        return self._section.authorize_url, {"client_id": self._section.client_id, "scope": self._scope}

    async def identify(self, back: LoginCallback) -> ProviderIdentity:
        """Exchange the code of `back` and return the user whom the provider's user page names. Raises
        LoginError.
        """
        form = {
            "grant_type": "authorization_code",
            "code": back.code,
            "redirect_uri": back.redirect_uri,
            "code_verifier": back.verifier,
            "client_id": self._section.client_id,
            "client_secret": self._section.client_secret.get_secret_value(),
        }
        token = (await ask(self._section.token_url, form=form)).get("access_token")
        if not isinstance(token, str) or not token:
            raise LoginError("the provider gave no token for this code")
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "radixway"}
        user = await ask(self._section.user_url, headers=headers)
        account = user.get("id")
        if isinstance(account, bool) or not isinstance(account, str | int) or account == "":
            raise LoginError("the provider does not say who this is")
        return ProviderIdentity(self._name, str(account), called(user, self._names) or str(account))


def called(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Return the display name: the first of the fields `names` that is text, cut to 256 characters."""
    for name in names:
        value = fields.get(name)
        shown = "".join(each for each in value if each.isprintable()) if isinstance(value, str) else ""
        if shown.strip():
            return shown.strip()[:256]
    return None
