"""Entries in Valkey or Redis: a hash for each, an index by time for each scope. No search module is needed.

Candidates of a scope are fetched with their vectors and compared here, so a scope is kept to
`most_per_scope` entries; the server lets go of entries by itself when their time is over.
"""

from collections.abc import AsyncIterator, Awaitable
from math import inf, isinf
from typing import Any

import numpy as np
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from radixway.core.config import ValkeyConfig
from radixway.semantics.cache.store import (
    ENTRY_FIELDS,
    CacheEntry,
    CacheStore,
    EntryFilter,
    EntryMatch,
    StoreFailedError,
    Vector,
    stored_value,
)

_BATCH = 500


class ValkeyStore(CacheStore):
    """Keys: `<prefix>e:<id>` a hash, `<prefix>s:<scope>` ids by end, `<prefix>x:<scope>:<exact>` an id."""

    name = "valkey"

    def __init__(self, config: ValkeyConfig) -> None:
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

    async def open_store(self) -> None:
        await _await_server(self._redis.ping())

    async def find_exact(self, scope: str, exact: str, now: float) -> CacheEntry | None:
        key = await _await_server(self._redis.get(self._make_key("x", f"{scope}:{exact}")))
        if key is None:
            return None
        entry = _decode_hash(await _await_server(self._redis.hgetall(self._make_key("e", key.decode()))))
        return entry if entry is not None and entry.is_fresh(now) else None

    async def find_nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[EntryMatch]:
        index = self._make_key("s", scope)
        ids = [
            key.decode() for key in await _await_server(self._redis.zrangebyscore(index, f"({now!r}", "+inf"))
        ]
        if not ids:
            return []
        pipe = self._redis.pipeline(transaction=False)
        for key in ids:
            pipe.hget(self._make_key("e", key), "vector")
        raw = await _await_server(pipe.execute())
        known = [(key, one) for key, one in zip(ids, raw, strict=True) if one and len(one) == vector.nbytes]
        if not known:
            return []
        cosines = (
            np.frombuffer(b"".join(one for _, one in known), np.float32).reshape(len(known), -1) @ vector
        )
        matches = []
        for row in np.argsort(-cosines, kind="stable")[:k]:
            entry = _decode_hash(await _await_server(self._redis.hgetall(self._make_key("e", known[row][0]))))
            if entry is not None and entry.is_fresh(now):
                matches.append(EntryMatch(entry, min(float(cosines[row]), 1.0)))
        return matches

    async def put_entry(self, entry: CacheEntry, now: float) -> None:
        index, literal = self._make_key("s", entry.scope), self._make_key("x", f"{entry.scope}:{entry.exact}")
        old = await _await_server(self._redis.get(literal))
        ends_in_s = None if isinf(entry.expires_at) else max(1, int(entry.expires_at - now) + 1)
        pipe = self._redis.pipeline(transaction=True)
        if old is not None:
            pipe.delete(self._make_key("e", old.decode()))
            pipe.zrem(index, old)
        pipe.hset(self._make_key("e", entry.id), mapping=_encode_hash(entry))
        pipe.set(literal, entry.id, ex=ends_in_s)
        pipe.zremrangebyscore(index, "-inf", now)
        pipe.zadd(index, {entry.id: entry.expires_at})
        pipe.zremrangebyrank(index, 0, -self._config.most_per_scope - 1)
        if ends_in_s is not None:
            pipe.expire(self._make_key("e", entry.id), ends_in_s)
        await _await_server(pipe.execute())

    async def remove_entries(self, which: EntryFilter) -> int:
        """Goes through all entries, unless the id is given."""
        count = 0
        async for row in self._iter_rows(which):
            if _matches_filter(which, row):
                key, scope, exact = (row[name].decode() for name in ("id", "scope", "exact"))
                pipe = self._redis.pipeline(transaction=True)
                pipe.delete(self._make_key("e", key), self._make_key("x", f"{scope}:{exact}"))
                pipe.zrem(self._make_key("s", scope), key)
                await _await_server(pipe.execute())
                count += 1
        return count

    async def count_entries(self) -> int:
        return len([key async for key in self._iter_keys()])

    async def close_store(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _iter_rows(self, which: EntryFilter) -> AsyncIterator[dict[str, bytes]]:
        keys = (
            [self._make_key("e", which.id)]
            if which.id is not None
            else [key async for key in self._iter_keys()]
        )
        wanted = ("id", "scope", "exact", "tenant", "user", "model")
        for start in range(0, len(keys), _BATCH):
            pipe = self._redis.pipeline(transaction=False)
            for key in keys[start : start + _BATCH]:
                pipe.hmget(key, wanted)
            for values in await _await_server(pipe.execute()):
                if values[0] is not None:
                    yield dict(zip(wanted, values, strict=True))

    async def _iter_keys(self) -> AsyncIterator[str]:
        cursor = 0
        while True:
            cursor, keys = await _await_server(
                self._redis.scan(cursor, match=self._make_key("e", "*"), count=_BATCH)
            )
            for key in keys:
                yield key.decode()
            if not cursor:
                return

    def _make_key(self, kind: str, name: str) -> str:
        return f"{self._config.prefix}{kind}:{name}"


async def _await_server(call: Awaitable[Any]) -> Any:
    """Return the server's answer; the client types it for text and bytes alike. Raises StoreFailedError."""
    try:
        return await call
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreFailedError(f"valkey: {type(error).__name__}") from None


def _encode_hash(entry: CacheEntry) -> dict[Any, Any]:
    return {
        "id": entry.id,
        "scope": entry.scope,
        "exact": entry.exact,
        "question": entry.question.encode("utf-8", "surrogatepass"),
        "vector": b"" if entry.vector is None else entry.vector.astype(np.float32).tobytes(),
        "answer": entry.answer,
        "tenant": stored_value("tenant", entry.tenant),
        "user": "" if entry.user is None else stored_value("user", entry.user),
        "model": stored_value("model", entry.model),
        "created_at": repr(entry.created_at),
        "expires_at": repr(entry.expires_at),
    }


def _decode_hash(row: dict[bytes, bytes]) -> CacheEntry | None:
    """Decode a row, or None if the server evicted it meanwhile."""
    if any(name.encode() not in row for name in ENTRY_FIELDS):
        return None
    text = {
        name: row[name.encode()].decode("utf-8", "surrogatepass")
        for name in ENTRY_FIELDS
        if name not in ("vector", "answer")
    }
    vector = np.frombuffer(row[b"vector"], np.float32) if row[b"vector"] else None
    expires_at = inf if text["expires_at"] == "inf" else float(text["expires_at"])
    return CacheEntry(
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


def _matches_filter(which: EntryFilter, row: dict[str, bytes]) -> bool:
    given = which.given_fields().items()
    return all(row[name].decode() == stored_value(name, value) for name, value in given)
