"""Login providers: their interface, requests to them, and those with OAuth 2 and a user page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec

from radixway.chat.records import UserRole
from radixway.core.config.chat import OAuthLoginConfig
from radixway.core.net import AddressAllowlist, FetchError, TooManyRedirectsError, UrlFetcher

_MAX_BYTES = 1 << 20
_ANYWHERE = AddressAllowlist(("0.0.0.0/0", "::/0"))
"""The gateway's operator named the provider, which may stand in a private network."""


class LoginError(Exception):
    """A login failed; the text says why, without codes and tokens."""

    def __init__(self, text: str, status: int = 401) -> None:
        """`status`: of HTTP."""
        super().__init__(text)
        self.status = status


class ProviderUnavailableError(LoginError):
    """The provider is unavailable."""

    def __init__(self, url: str, why: str) -> None:
        host = url.split("/")[2]
        super().__init__(f"{host} is unavailable: {why}", 503)


async def ask(
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the JSON object at `url`, posting `form` if there is one. Raises LoginError."""
    sent = {"Accept": "application/json", **(headers or {})}
    if form is not None:
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    method, body = ("GET", None) if form is None else ("POST", urlencode(form).encode())
    try:
        async with UrlFetcher(_ANYWHERE, max_bytes=_MAX_BYTES, max_redirects=0) as fetcher:
            answer = await fetcher.fetch(url, method=method, headers=sent, body=body)
    except TooManyRedirectsError:
        raise LoginError("the provider refused: it leads elsewhere") from None
    except FetchError as error:
        raise ProviderUnavailableError(url, str(error)) from error
    if answer.status >= 500 or answer.status == 429:
        raise ProviderUnavailableError(url, f"it answered {answer.status}")
    if answer.status != 200:
        raise LoginError(f"the provider refused: it answered {answer.status}")
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProviderUnavailableError(url, "it did not answer a JSON object of at most a megabyte") from None


@dataclass(frozen=True, slots=True)
class ProviderIdentity:
    """A user's identity, as a provider states it."""

    provider: str
    account: str
    """The user's only stable identifier: names and addresses change hands."""
    name: str
    role: UserRole | None = None
    """None: the provider reports no role."""


@dataclass(frozen=True, slots=True)
class LoginCallback:
    """The parameters of a callback, and what this server remembered for it."""

    code: str
    verifier: str
    nonce: str
    redirect_uri: str
    issuer: str | None = None
    """Issuer that the provider named in its redirect (RFC 9207), or None."""

    def to_token_form(self) -> dict[str, str]:
        """Return the fields of the request that exchanges the code."""
        return {
            "grant_type": "authorization_code",
            "code": self.code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
        }


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
        """Exchange the code of `back` and return the user of the provider's user page. Raises LoginError."""
        form = back.to_token_form() | {
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
        shown = "".join(filter(str.isprintable, value)) if isinstance(value, str) else ""
        if shown.strip():
            return shown.strip()[:256]
    return None
