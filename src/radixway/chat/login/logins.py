"""Sends a user's browser to a login provider, and redeems its callback once.

The state of a login travels with the browser, encrypted, as `state`: an unfinished login leaves neither a
cookie nor a row. A state serves once, in all processes.
"""

import secrets
import uuid
from collections.abc import Callable

from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from sqlalchemy import delete

from radixway.chat.accounts import UserAccounts
from radixway.chat.database import ChatDatabase, insert_into
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.ids import hash_secret
from radixway.chat.login.oidc import OidcProvider
from radixway.chat.login.providers import (
    IdentityProvider,
    LoginCallback,
    LoginError,
    OAuthProvider,
    ProviderIdentity,
)
from radixway.chat.schema import used_logins
from radixway.chat.server_secrets import ClaimsCipher, ServerSecrets
from radixway.chat.user_tokens import TokenIssuer, TokenPair
from radixway.core.config.chat import ChatLoginConfig

_LASTS_S = 600.0
"""Seconds between leaving for the provider and coming back."""


class LoginService:
    """Logins at all configured providers."""

    def __init__(
        self,
        section: ChatLoginConfig,
        server_secrets: ServerSecrets,
        database: ChatDatabase,
        clock: Callable[[], float],
        accounts: UserAccounts,
        credentials: TokenIssuer,
    ) -> None:
        """`clock`: seconds since 1970."""
        self._cipher = ClaimsCipher(server_secrets, b"radixway: state of a login")
        self._database = database
        self._clock = clock
        self._accounts = accounts
        self._credentials = credentials
        self._back = section.callback_base_url
        self._providers = _providers(section, clock)

    @property
    def names(self) -> list[str]:
        """Return the providers' names."""
        return list(self._providers)

    async def begin(self, name: str) -> str:
        """Return the URL at provider `name` to send a browser to. Raises ChatNotFoundError, LoginError."""
        provider = self._provider(name)
        url, parameters = await provider.authorize()
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        claims = {
            "provider": name,
            "verifier": verifier,
            "nonce": nonce,
            "exp": self._clock() + _LASTS_S,
        }
        if isinstance(provider, OidcProvider):
            parameters["nonce"] = nonce
        at_provider: str = prepare_grant_uri(
            url,
            response_type="code",
            redirect_uri=self._redirect(name),
            state=self._cipher.encrypt(claims),
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
            **parameters,
        )
        return at_provider

    async def end(self, name: str, code: str, state: str, issuer: str | None = None) -> TokenPair:
        """Return tokens for the user who came back with `code` and `state`. `issuer`: see `LoginCallback`.
        Raises ChatNotFoundError, LoginError.
        """
        provider = self._provider(name)
        verifier, nonce = await self._redeem(name, state)
        identity = await provider.identify(LoginCallback(code, verifier, nonce, self._redirect(name), issuer))
        return await self._credentials.issue_pair(await self._enrolled(provider.tenant, identity))

    def known(self, name: str) -> None:
        """Check that provider `name` is configured. Raises ChatNotFoundError."""
        self._provider(name)

    def _provider(self, name: str) -> IdentityProvider:
        if name not in self._providers:
            raise ChatNotFoundError(f"Login with {name[:32]!r} is not configured")
        return self._providers[name]

    def _redirect(self, name: str) -> str:
        return f"{self._back}/{name}"

    async def _redeem(self, name: str, state: str) -> tuple[str, str]:
        """Return PKCE's verifier and the nonce of a login, once. Raises LoginError."""
        try:
            claims = self._cipher.decrypt(state)
            meant, until = claims["provider"], float(claims["exp"])
        except (ValueError, KeyError, TypeError):
            raise LoginError("this login was not started here", 400) from None
        now = self._clock()
        if meant != name:
            raise LoginError("this login was started at another provider", 400)
        if until <= now:
            raise LoginError("this login took too long: start again", 400)
        row = {"state_hash": hash_secret(state), "expires_at": until}
        async with self._database.write_transaction() as write:
            await write.execute(delete(used_logins).where(used_logins.c.expires_at <= now))
            once = insert_into(write, used_logins).values(**row).on_conflict_do_nothing()
            if (await write.execute(once)).rowcount == 0:
                raise LoginError("this login has already been completed: start again", 400)
        return str(claims["verifier"]), str(claims["nonce"])

    async def _enrolled(self, tenant: str, identity: ProviderIdentity) -> str:
        if not identity.account.isprintable():
            raise LoginError("the provider does not say who this is")
        known = await self._accounts.find_provider_user(tenant, identity.provider, identity.account)
        user = known or await self._accounts.enroll_user(
            tenant, identity.provider, identity.account, identity.name, new_id=str(uuid.uuid4())
        )
        if identity.role is not None and identity.role != user.role:
            await self._accounts.set_role(user.id, identity.role)
        return user.id


def _providers(section: ChatLoginConfig, clock: Callable[[], float]) -> dict[str, IdentityProvider]:
    found: dict[str, IdentityProvider] = {}
    if section.discord is not None:
        names = ("global_name", "username")
        found["discord"] = OAuthProvider("discord", section.discord, scope="identify", names=names)
    if section.github is not None:
        found["github"] = OAuthProvider("github", section.github, scope="read:user", names=("login", "name"))
    if section.google is not None:
        found["google"] = OidcProvider(section.google, clock, name="google")
    return found | {name: OidcProvider(provider, clock) for name, provider in section.oidc.items()}
