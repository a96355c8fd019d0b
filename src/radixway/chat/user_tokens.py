"""Access and refresh tokens, as the published service makes them: encrypted (JWE, `dir` with `A256GCM`).

A refresh token works once. If it is used again it was stolen, and all tokens of the same login are revoked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.database import ChatDatabase
from radixway.chat.ids import hash_secret, new_id
from radixway.chat.schema import refresh_tokens
from radixway.chat.server_secrets import ClaimsCipher, ServerSecrets

_ACCESS_S, _REFRESH_S = 3600.0, 7 * 86400.0

TokenType = Literal["access", "refresh"]


class InvalidTokenError(Exception):
    """An invalid token; the text is the published one."""

    status = 401


class TokenTypeError(InvalidTokenError):
    """A refresh token where an access token belongs, or the other way round."""

    status = 400


@dataclass(frozen=True, slots=True)
class TokenPair:
    """An access token and a refresh token."""

    access: str
    refresh: str


class TokenIssuer:
    """Issues and checks tokens."""

    def __init__(self, secrets: ServerSecrets, database: ChatDatabase, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._cipher = ClaimsCipher(secrets, b"NextAuth.js Generated Encryption Key")
        self._database = database
        self._clock = clock

    def find_user_id(self, token: str) -> str:
        """Return the user of the access token `token`. Raises InvalidTokenError."""
        return self._decrypt_token(token, "access")

    async def issue_pair(self, user_id: str) -> TokenPair:
        """Return a new pair for `user_id`, the first of its family."""
        async with self._database.write_transaction() as write:
            return await self._issue_pair(write, user_id, new_id())

    async def refresh_pair(self, token: str) -> TokenPair:
        """Return a new pair for the refresh token `token`, which stops working. Raises InvalidTokenError."""
        user_id = self._decrypt_token(token, "refresh")
        async with self._database.write_transaction() as write:
            is_this = refresh_tokens.c.token_hash == hash_secret(token)
            found = (await write.execute(select(refresh_tokens).where(is_this).with_for_update())).first()
            if found is None or found.revoked:
                raise InvalidTokenError("Invalid token")
            change = update(refresh_tokens)
            if found.used_at is None:
                # In one transaction: a thief who comes a moment later finds the new one to revoke, too.
                await write.execute(change.where(is_this).values(used_at=self._clock()))
                return await self._issue_pair(write, user_id, found.family)
            family = refresh_tokens.c.family == found.family
            await write.execute(change.where(family).values(revoked=True))
        raise InvalidTokenError("Invalid token")

    async def revoke_user(self, user_id: str) -> None:
        """Revoke all refresh tokens of `user_id`."""
        async with self._database.write_transaction() as write:
            theirs = refresh_tokens.c.user_id == user_id
            await write.execute(update(refresh_tokens).where(theirs).values(revoked=True))

    async def _issue_pair(self, write: AsyncConnection, user_id: str, family: str) -> TokenPair:
        now = self._clock()
        refresh, until = self._encrypt_token(user_id, "refresh", _REFRESH_S), now + _REFRESH_S
        row = {"token_hash": hash_secret(refresh), "user_id": user_id, "family": family, "expires_at": until}
        await write.execute(delete(refresh_tokens).where(refresh_tokens.c.expires_at <= now))
        await write.execute(refresh_tokens.insert().values(**row))
        return TokenPair(self._encrypt_token(user_id, "access", _ACCESS_S), refresh)

    def _encrypt_token(self, user_id: str, kind: TokenType, lasts_s: float) -> str:
        return self._cipher.encrypt({"user_id": user_id, "exp": self._clock() + lasts_s, "type": kind})

    def _decrypt_token(self, token: str, kind: TokenType) -> str:
        try:
            claims = self._cipher.decrypt(token)
            user_id, until, found = claims["user_id"], float(claims["exp"]), claims["type"]
        except (ValueError, KeyError, TypeError):
            raise InvalidTokenError("Invalid token") from None
        if found != kind:
            raise TokenTypeError("Invalid token type")
        if until < self._clock():
            raise InvalidTokenError("Token expired")
        return str(user_id)
