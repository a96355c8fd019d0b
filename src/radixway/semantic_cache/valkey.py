"""Entries in Valkey or Redis: a hash for each, an index by time for each scope. No search module is needed.

Candidates of a scope are fetched with their vectors and compared here, so a scope is kept to
`most_per_scope` entries; the server lets go of entries by itself when their time is over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from math import inf, isinf
from typing import Any

import numpy as np
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from radixway.config import ValkeySection
from radixway.semantic_cache.entry import Entry, Filter, Match, Vector
from radixway.semantic_cache.scope import digest
from radixway.semantic_cache.store import StoreFailed

_FIELDS = (
    "id",
    "scope",
    "exact",
    "question",
    "vector",
    "answer",
    "tenant",
    "user",
    "model",
    "created_at",
    "expires_at",
)
_BATCH = 500


class ValkeyStore:
    """Keys: `<prefix>e:<id>` a hash, `<prefix>s:<scope>` ids by end, `<prefix>x:<scope>:<exact>` an id."""

    name = "valkey"

    def __init__(self, config: ValkeySection) -> None:
        self._config = config
        tls = {"ssl_ca_certs": str(config.ca_file)} if config.ca_file is not None else {}
        pool = ConnectionPool.from_url(
            config.url.get_secret_value(),
            max_connections=config.connections,
            socket_connect_timeout=config.timeout_s,
            socket_timeout=config.timeout_s,
            retry=Retry(NoBackoff(), 0),
            **tls,
        )
        self._redis = Redis.from_pool(pool)

    async def open(self) -> None:
        """See `Store`."""
        await _answer(self._redis.ping())

    async def find(self, scope: str, exact: str, now: float) -> Entry | None:
        """See `Store`."""
        key = await _answer(self._redis.get(self._key("x", f"{scope}:{exact}")))
        if key is None:
            return None
        entry = _entry(await _answer(self._redis.hgetall(self._key("e", key.decode()))))
        return entry if entry is not None and entry.is_fresh(now) else None

    async def nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[Match]:
        """See `Store`."""
        shelf = self._key("s", scope)
        ids = [key.decode() for key in await _answer(self._redis.zrangebyscore(shelf, f"({now!r}", "+inf"))]
        if not ids:
            return []
        pipe = self._redis.pipeline(transaction=False)
        for key in ids:
            pipe.hget(self._key("e", key), "vector")
        raw = await _answer(pipe.execute())
        known = [(key, one) for key, one in zip(ids, raw, strict=True) if one and len(one) == vector.nbytes]
        if not known:
            return []
        cosines = (
            np.frombuffer(b"".join(one for _, one in known), np.float32).reshape(len(known), -1) @ vector
        )
        matches = []
        for row in np.argsort(-cosines, kind="stable")[:k]:
            entry = _entry(await _answer(self._redis.hgetall(self._key("e", known[row][0]))))
            if entry is not None and entry.is_fresh(now):
                matches.append(Match(entry, min(float(cosines[row]), 1.0)))
        return matches

    async def put(self, entry: Entry, now: float) -> None:
        """See `Store`."""
        shelf, literal = self._key("s", entry.scope), self._key("x", f"{entry.scope}:{entry.exact}")
        old = await _answer(self._redis.get(literal))
        ends_in_s = None if isinf(entry.expires_at) else max(1, int(entry.expires_at - now) + 1)
        pipe = self._redis.pipeline(transaction=True)
        if old is not None:
            pipe.delete(self._key("e", old.decode()))
            pipe.zrem(shelf, old)
        pipe.hset(self._key("e", entry.id), mapping=_fields(entry))
        pipe.set(literal, entry.id, ex=ends_in_s)
        pipe.zremrangebyscore(shelf, "-inf", now)
        pipe.zadd(shelf, {entry.id: entry.expires_at})
        pipe.zremrangebyrank(shelf, 0, -self._config.most_per_scope - 1)
        if ends_in_s is not None:
            pipe.expire(self._key("e", entry.id), ends_in_s)
        await _answer(pipe.execute())

    async def used(self, entry: Entry) -> None:
        """The server lets go by time, and by its own `maxmemory-policy`."""

    async def remove(self, which: Filter) -> int:
        """See `Store`. Goes through all entries, unless the id is given."""
        count = 0
        async for row in self._rows(which):
            if _agrees(which, row):
                key, scope, exact = (row[name].decode() for name in ("id", "scope", "exact"))
                pipe = self._redis.pipeline(transaction=True)
                pipe.delete(self._key("e", key), self._key("x", f"{scope}:{exact}"))
                pipe.zrem(self._key("s", scope), key)
                await _answer(pipe.execute())
                count += 1
        return count

    async def size(self) -> int:
        """See `Store`."""
        return len([key async for key in self._keys()])

    async def close(self) -> None:
        """See `Store`."""
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _rows(self, which: Filter) -> AsyncIterator[dict[str, bytes]]:
        keys = [self._key("e", which.id)] if which.id is not None else [key async for key in self._keys()]
        wanted = ("id", "scope", "exact", "tenant", "user", "model")
        for start in range(0, len(keys), _BATCH):
            pipe = self._redis.pipeline(transaction=False)
            for key in keys[start : start + _BATCH]:
                pipe.hmget(key, wanted)
            for values in await _answer(pipe.execute()):
                if values[0] is not None:
                    yield dict(zip(wanted, values, strict=True))

    async def _keys(self) -> AsyncIterator[str]:
        cursor = 0
        while True:
            cursor, keys = await _answer(self._redis.scan(cursor, match=self._key("e", "*"), count=_BATCH))
            for key in keys:
                yield key.decode()
            if not cursor:
                return

    def _key(self, kind: str, name: str) -> str:
        return f"{self._config.prefix}{kind}:{name}"


async def _answer(call: Awaitable[Any]) -> Any:
    """The server's answer; the client types it for texts and bytes alike. Raises StoreFailed."""
    try:
        return await call
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreFailed(f"valkey: {type(error).__name__}") from None


def _fields(entry: Entry) -> dict[Any, Any]:
    return {
        "id": entry.id,
        "scope": entry.scope,
        "exact": entry.exact,
        "question": entry.question.encode("utf-8", "surrogatepass"),
        "vector": b"" if entry.vector is None else entry.vector.astype(np.float32).tobytes(),
        "answer": entry.answer,
        "tenant": _hashed(entry.tenant),
        "user": "" if entry.user is None else _hashed(entry.user),
        "model": _hashed(entry.model),
        "created_at": repr(entry.created_at),
        "expires_at": repr(entry.expires_at),
    }


def _entry(row: dict[bytes, bytes]) -> Entry | None:
    """None where the server has let go of it meanwhile."""
    if any(name.encode() not in row for name in _FIELDS):
        return None
    text = {
        name: row[name.encode()].decode("utf-8", "surrogatepass")
        for name in _FIELDS
        if name not in ("vector", "answer")
    }
    vector = np.frombuffer(row[b"vector"], np.float32) if row[b"vector"] else None
    expires_at = inf if text["expires_at"] == "inf" else float(text["expires_at"])
    return Entry(
        id=text["id"],
        scope=text["scope"],
        exact=text["exact"],
        question=text["question"],
        vector=vector,
        answer=row[b"answer"],
        tenant=text["tenant"],
        user=text["user"] or None,
        model="",
        created_at=float(text["created_at"]),
        expires_at=expires_at,
    )


def _agrees(which: Filter, row: dict[str, bytes]) -> bool:
    hashed = ("tenant", "user", "model")
    return all(
        row[name].decode() == (_hashed(value) if name in hashed else value)
        for name, value in which.given().items()
    )


def _hashed(name: str) -> str:
    return digest(name.encode("utf-8", "replace"))
