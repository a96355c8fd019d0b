"""API keys: kept as hashes, each for one purpose, until it expires or is revoked."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from sqlalchemy import bindparam, delete, select, update

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.ids import hash_secret, new_id
from radixway.chat.records import User
from radixway.chat.schema import api_keys, users
from radixway.chat.statements import USER
from radixway.chat.user_tokens import InvalidTokenError
from radixway.core.config import DEFAULT_TENANT

PREFIX = "rxw_"
"""Prefix of every key, by which scanners find published ones."""
_SHOWN = len(PREFIX) + 6
_USED_S = 3600.0
"""Precision of a key's last use; finer would cost a write per call."""


class KeyScope(StrEnum):
    """The use that a key is restricted to."""

    USER = "user"
    """Calls as its user."""
    ADMIN = "admin"
    """The administrator's calls; where it has a user, calls as that one too."""
    WORKER = "worker"
    """Fetching jobs, and nothing else."""
    TRUSTED = "trusted"
    """The header `TrustedClient`: a server that speaks for its own users."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret."""

    id: str
    name: str
    shown: str
    """How it begins, for people to tell keys apart."""
    scope: KeyScope
    tenant: str
    user_id: str | None
    client: str | None
    """The only provider whose users a trusted key may act for; None: any."""
    created_at: float
    expires_at: float | None
    used_at: float | None
    """Precise to the hour."""


_COLUMNS = tuple(api_keys.c[name] for name in ApiKey.__dataclass_fields__)
_BY_HASH = select(*_COLUMNS).where(api_keys.c.key_hash == bindparam("hash"))


class ApiKeyStore:
    """The keys of all tenants. A key has 256 random bits, so its plain SHA-256 is safe."""

    def __init__(self, database: ChatDatabase, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._clock = clock

    async def create_key(
        self,
        name: str,
        scope: KeyScope,
        *,
        user_id: str | None = None,
        tenant: str = DEFAULT_TENANT,
        client: str | None = None,
        lasts_s: float | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key and return it with its text, which is not stored. `lasts_s`: until it expires.

        With `user_id` it belongs to the user's tenant. Raises ChatNotFoundError: there is no such user;
        ValueError: `scope` needs a user, or has none.
        """
        if scope is KeyScope.USER and user_id is None:
            raise ValueError("a key of scope user needs a user")
        if scope in (KeyScope.WORKER, KeyScope.TRUSTED) and user_id is not None:
            raise ValueError(f"a key of scope {scope} belongs to no user")
        if client is not None and scope is not KeyScope.TRUSTED:
            raise ValueError("only a key of scope trusted speaks for a client")
        now = self._clock()
        until = None if lasts_s is None else now + lasts_s
        async with self._database.write_transaction() as write:
            if user_id is not None:
                known = users.c.id == user_id, users.c.deleted.is_(False)
                owner = (await write.execute(select(users.c.tenant).where(*known))).first()
                if owner is None:
                    raise ChatNotFoundError("User not found")
                tenant = owner.tenant
            text = _generate_text()
            key = ApiKey(
                new_id(), name, text[:_SHOWN], scope, tenant, user_id, client, now, until, used_at=None
            )
            await write.execute(api_keys.insert().values(**_to_row(key, text)))
        return key, text

    async def find_key(self, text: str) -> tuple[ApiKey, User | None] | None:
        """Return the key with this `text`, and its user. Raises InvalidTokenError for an expired one."""
        async with self._database.read_connection() as read:
            row = (await read.execute(_BY_HASH, {"hash": hash_secret(text)})).first()
            if row is None:
                return None
            owner = None
            if row.user_id is not None:
                found = (await read.execute(USER, {"user": row.user_id})).first()
                if found is None or found.deleted:
                    return None
                owner = User(**found._mapping)
        now = self._clock()
        if row.expires_at is not None and row.expires_at <= now:
            raise InvalidTokenError("Token expired")
        if row.used_at is None or row.used_at <= now - _USED_S:
            await self._database.execute(update(api_keys).where(api_keys.c.id == row.id).values(used_at=now))
        return _from_row(row), owner

    async def list_keys(self, *, user_id: str | None = None) -> list[ApiKey]:
        """Return keys in the order of creation. `user_id`: only this user's."""
        wanted = select(*_COLUMNS).order_by(api_keys.c.id)
        if user_id is not None:
            wanted = wanted.where(api_keys.c.user_id == user_id)
        return [_from_row(row) for row in await self._database.fetch_all(wanted)]

    async def rotate_key(self, key_id: str, *, overlap_s: float = 0.0) -> tuple[ApiKey, str]:
        """Replace `key_id` by a key with the same lifetime; the old one works for `overlap_s` more at most.

        Raises ChatNotFoundError.
        """
        now, this = self._clock(), api_keys.c.id == key_id
        async with self._database.write_transaction() as write:
            row = (await write.execute(select(*_COLUMNS).where(this).with_for_update())).first()
            if row is None:
                raise ChatNotFoundError("Key not found")
            old, text = _from_row(row), _generate_text()
            until = None if old.expires_at is None else now + (old.expires_at - old.created_at)
            new = replace(
                old, id=new_id(), shown=text[:_SHOWN], created_at=now, expires_at=until, used_at=None
            )
            await write.execute(api_keys.insert().values(**_to_row(new, text)))
            ends = now + overlap_s
            if old.expires_at is None or ends < old.expires_at:
                await write.execute(update(api_keys).where(this).values(expires_at=ends))
        return new, text

    async def revoke_key(self, key_id: str, *, user_id: str | None = None) -> None:
        """Delete `key_id`; with `user_id` only if it is this user's. Raises ChatNotFoundError."""
        gone = delete(api_keys).where(api_keys.c.id == key_id)
        if user_id is not None:
            gone = gone.where(api_keys.c.user_id == user_id)
        if await self._database.execute(gone) == 0:
            raise ChatNotFoundError("Key not found")


def _generate_text() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _to_row(key: ApiKey, text: str) -> dict[str, object]:
    return {name: getattr(key, name) for name in ApiKey.__dataclass_fields__} | {
        "key_hash": hash_secret(text)
    }


def _from_row(row: object) -> ApiKey:
    fields = {name: getattr(row, name) for name in ApiKey.__dataclass_fields__}
    return ApiKey(**fields | {"scope": KeyScope(fields["scope"])})
