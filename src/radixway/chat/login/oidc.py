"""OpenID Connect Core 1.0: discovery, the provider's keys, and what an id token must be."""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from radixway.chat.login.providers import (
    LoginCallback,
    LoginError,
    ProviderIdentity,
    ProviderUnavailableError,
    ask,
    called,
)
from radixway.chat.records import UserRole
from radixway.core.config.chat import OidcLoginConfig, is_guarded_url

_SIGNED_BY = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
]
"""Asymmetric algorithms only: neither `none` nor a shared secret."""
_KINDS: dict[Any, Callable[[Any], Any]] = {
    "RSA": RSAKey.import_key,
    "EC": ECKey.import_key,
    "OKP": OKPKey.import_key,
}
_METADATA_TTL_S = 3600.0
_KEY_REFRESH_S = 30.0
"""Interval between two fetches for unknown key ids, which any token can name."""
_LEEWAY_S = 60
_MAX_ID_TOKEN_CHARACTERS = 64 * 1024
_NAMES = ("name", "preferred_username", "nickname")


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """The addresses in a provider's discovery document."""

    authorize_url: str
    token_url: str
    keys_url: str
    secret_in_body: bool
    """Send the client's secret in the form instead of HTTP Basic."""
    at: float


class OidcProvider:
    """An issuer of OpenID Connect. Users are identified by issuer and subject."""

    def __init__(
        self, section: OidcLoginConfig, clock: Callable[[], float], *, name: str | None = None
    ) -> None:
        """`clock`: seconds since 1970. `name`: kept with users in place of the issuer."""
        self.tenant = section.tenant
        self._section = section
        self._clock = clock
        self._name = name or section.issuer
        self._found: ProviderMetadata | None = None
        self._keys = KeySet([])
        self._keys_at = float("-inf")
        self._lock = asyncio.Lock()

    async def authorize(self) -> tuple[str, dict[str, str]]:
        """Return the authorization URL and this provider's parameters. Raises LoginError."""
        found = await self._discover()
        return found.authorize_url, {
            "client_id": self._section.client_id,
            "scope": " ".join(self._section.scopes),
        }

    async def identify(self, back: LoginCallback) -> ProviderIdentity:
        """Exchange the code of `back` and return the user that the id token names. Raises LoginError."""
        if back.issuer not in (None, self._section.issuer):
            raise LoginError("this comes from another issuer", 400)
        answer = await self._exchange(back)
        token = answer.get("id_token")
        if not isinstance(token, str) or len(token) > _MAX_ID_TOKEN_CHARACTERS:
            raise LoginError("the provider gave no id token for this code")
        claims = await self._claims(token, back.nonce)
        for name, value in self._section.required_claims.items():
            if claims.get(name) != value:
                raise LoginError(f"only users with a certain {name!r} may log in here", 403)
        return ProviderIdentity(
            self._name, claims["sub"], called(claims, _NAMES) or claims["sub"], self._role(claims)
        )

    async def _exchange(self, back: LoginCallback) -> dict[str, Any]:
        found, section = await self._discover(), self._section
        form = back.to_token_form()
        secret = section.client_secret
        if secret is None or found.secret_in_body:
            form["client_id"] = section.client_id
            if secret is not None:
                form["client_secret"] = secret.get_secret_value()
            return await ask(found.token_url, form=form)
        name, password = (quote(text, safe="") for text in (section.client_id, secret.get_secret_value()))
        basic = base64.b64encode(f"{name}:{password}".encode()).decode()
        return await ask(found.token_url, form=form, headers={"Authorization": f"Basic {basic}"})

    async def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an id token for this client and login. Raises LoginError."""
        try:
            claims = CodeIDToken(
                await self._verified(token),
                {},
                {"iss": {"value": self._section.issuer}, "aud": {"value": self._section.client_id}},
                {"nonce": nonce, "client_id": self._section.client_id},
            )
            claims.validate(int(self._clock()), _LEEWAY_S)
        except (JoseError, ValueError, TypeError) as error:
            raise LoginError(f"the id token is invalid: {type(error).__name__}") from error
        if not claims["sub"] or len(claims["sub"]) > 255:
            raise LoginError("the id token is invalid: it names no user")
        return dict(claims)

    async def _verified(self, token: str) -> dict[str, Any]:
        """Return the claims if the provider signed them. Raises JoseError, ValueError, LoginError."""
        keys = await self._key_set(fresh_after=self._clock() - _METADATA_TTL_S)
        try:
            return jwt.decode(token, keys, algorithms=_SIGNED_BY).claims
        except InvalidKeyIdError:  # the provider has changed its keys
            keys = await self._key_set(fresh_after=self._clock() - _KEY_REFRESH_S)
            return jwt.decode(token, keys, algorithms=_SIGNED_BY).claims

    async def _key_set(self, *, fresh_after: float) -> KeySet:
        found = await self._discover()
        async with self._lock:
            if self._keys_at <= fresh_after:
                keys = (await ask(found.keys_url)).get("keys")
                self._keys = _usable(keys if isinstance(keys, list) else [])
                self._keys_at = self._clock()
            return self._keys

    async def _discover(self) -> ProviderMetadata:
        async with self._lock:
            if self._found is None or self._found.at <= self._clock() - _METADATA_TTL_S:
                url = f"{self._section.issuer.rstrip('/')}/.well-known/openid-configuration"
                self._found = self._read(url, await ask(url))
            return self._found

    def _read(self, url: str, document: dict[str, Any]) -> ProviderMetadata:
        if document.get("issuer") != self._section.issuer:
            raise ProviderUnavailableError(url, "its discovery document is another issuer's")
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        authorize_url, token_url, keys_url = (str(document.get(name)) for name in names)
        if not all(map(is_guarded_url, (authorize_url, token_url, keys_url))):
            raise ProviderUnavailableError(
                url, "its discovery document lacks an address, or one is not https"
            )
        methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        in_body = "client_secret_basic" not in methods and "client_secret_post" in methods
        return ProviderMetadata(authorize_url, token_url, keys_url, in_body, self._clock())

    def _role(self, claims: dict[str, Any]) -> UserRole | None:
        if self._section.admin_claim is None:
            return None
        has = claims.get(self._section.admin_claim)
        values = has if isinstance(has, list) else [has]
        is_admin = any(value in self._section.admin_values for value in values if isinstance(value, str))
        return UserRole.ADMIN if is_admin else UserRole.USER


def _usable(keys_json: list[Any]) -> KeySet:
    """Return the keys that can verify a signature; unknown kinds are skipped (RFC 7517, 5)."""
    keys: list[Any] = []
    for key in keys_json:
        kind = _KINDS.get(key.get("kty")) if isinstance(key, dict) else None
        if kind is None or key.get("use", "sig") != "sig":
            continue
        try:
            keys.append(kind(key))
        except (JoseError, ValueError, KeyError, TypeError):
            continue
    return KeySet(keys)
