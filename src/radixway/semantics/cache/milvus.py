"""Entries in Milvus: a file of milvus-lite, or a server. Needs radixway[milvus]."""

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import Any, TypeVar

import numpy as np
from pymilvus import DataType, MilvusClient
from pymilvus.exceptions import MilvusException

from radixway.core.config import MilvusConfig
from radixway.semantics.cache.store import (
    ENTRY_FIELDS,
    HASHED_FIELDS,
    CacheEntry,
    CacheStore,
    EntryFilter,
    EntryMatch,
    StoreFailedError,
    Vector,
    stored_value,
)

logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs every failed call with its traceback

T = TypeVar("T")

_SIZE = 384
_MAX_VARCHAR_BYTES = 65_535
"""Bytes of a string in Milvus; a longer answer, deflated and in base64, is not stored."""
_NEVER = 1e18
"""Stands for no expiry: Milvus has no infinity."""
_OPEN_S = 30.0
_FIELDS = [name for name in ENTRY_FIELDS if name != "vector"]
_HAS_VECTOR = "has_vector"


class MilvusStore(CacheStore):
    """A collection for all scopes; searches are filtered by scope and time.

    pymilvus blocks, so it runs in a pool of threads of its own over one channel; what takes longer than the
    configured time counts as failed. Names of tenants, users and models are stored as digests: they are only
    compared. An entry without a vector has one of zeros and is found literally alone.
    """

    name = "milvus"

    def __init__(self, config: MilvusConfig) -> None:
        self._config = config
        self._client: MilvusClient | None = None
        self._threads = ThreadPoolExecutor(config.connections, "milvus")

    async def open_store(self) -> None:
        """The collection is made if it is missing."""
        await self._run_in_thread(self._connect_client, timeout_s=_OPEN_S)

    async def find_exact(self, scope: str, exact: str, now: float) -> CacheEntry | None:
        where = (
            f"scope == {_quote_string(scope)} and exact == {_quote_string(exact)} and expires_at > {now!r}"
        )
        rows = await self._run_in_thread(self._query_rows, where, [*_FIELDS, "vector", _HAS_VECTOR])
        newest = max(rows, key=lambda row: float(row["created_at"]), default=None)
        return None if newest is None else _decode_row(newest)

    async def find_nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[EntryMatch]:
        where = f"scope == {_quote_string(scope)} and expires_at > {now!r} and {_HAS_VECTOR} == true"
        rows = await self._run_in_thread(self._search_vectors, vector.tolist(), where, k)
        matches = [EntryMatch(_decode_row(row["entity"]), min(float(row["distance"]), 1.0)) for row in rows]
        return sorted(matches, key=lambda match: -match.similarity)

    async def put_entry(self, entry: CacheEntry, now: float) -> None:
        """An entry that is too large for it is left out."""
        row = _encode_row(entry)
        if len(row["answer"]) <= _MAX_VARCHAR_BYTES and len(row["question"].encode()) <= _MAX_VARCHAR_BYTES:
            await self._run_in_thread(self._upsert_row, row, now)

    async def remove_entries(self, which: EntryFilter) -> int:
        terms = [
            f"{name} == {_quote_string(stored_value(name, value))}"
            for name, value in which.given_fields().items()
        ]
        return await self._run_in_thread(self._delete_rows, " and ".join(terms) or 'id != ""')

    async def count_entries(self) -> int:
        rows = await self._run_in_thread(self._query_rows, 'id != ""', ["count(*)"])
        return int(rows[0]["count(*)"]) if rows else 0

    async def close_store(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(client.close)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run_in_thread(self, call: Callable[..., T], *args: Any, timeout_s: float | None = None) -> T:
        """Run a blocking call in a thread. Raises StoreFailedError."""
        timeout_s = self._config.timeout_s if timeout_s is None else timeout_s
        working = asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *args))
        try:
            async with asyncio.timeout(timeout_s):
                return await working
        except TimeoutError:
            raise StoreFailedError(f"milvus did not answer within {timeout_s:g} s") from None
        except (MilvusException, OSError, ValueError, RuntimeError) as error:
            raise StoreFailedError(f"milvus: {_sanitize_error(error)}") from None

    def _connect_client(self) -> None:
        config = self._config
        secrets = {"token": config.token.get_secret_value()} if config.token is not None else {}
        files = {
            "server_pem_path": config.ca_file if config.client_cert_file is None else None,
            "ca_pem_path": config.ca_file if config.client_cert_file is not None else None,
            "client_pem_path": config.client_cert_file,
            "client_key_path": config.client_key_file,
            "server_name": config.server_name,
        }
        given = {name: str(value) for name, value in files.items() if value is not None}
        secure = {"secure": True} if config.uri.startswith("https://") or given else {}
        client = MilvusClient(
            config.uri, db_name=config.database, timeout=_OPEN_S, **secrets, **given, **secure
        )
        if not client.has_collection(config.collection):
            _create_collection(client, config.collection)
        client.load_collection(config.collection)
        self._client = client

    def _query_rows(self, where: str, fields: list[str]) -> list[dict[str, Any]]:
        rows = self._connected.query(
            self._config.collection,
            filter=where,
            output_fields=fields,
            timeout=self._config.timeout_s,
            consistency_level="Strong",
        )
        return list(rows)

    def _search_vectors(self, vector: list[float], where: str, k: int) -> list[dict[str, Any]]:
        found = self._connected.search(
            self._config.collection,
            [vector],
            filter=where,
            limit=k,
            output_fields=_FIELDS,
            search_params={"metric_type": "COSINE"},
            timeout=self._config.timeout_s,
            consistency_level="Strong",
        )
        return list(found[0]) if found else []

    def _upsert_row(self, row: dict[str, Any], now: float) -> None:
        client, name = self._connected, self._config.collection
        same = f"exact == {_quote_string(row['exact'])}"
        older = f"scope == {_quote_string(row['scope'])} and ({same} or expires_at <= {now!r})"
        client.delete(name, filter=older, timeout=self._config.timeout_s)
        client.upsert(name, [row], timeout=self._config.timeout_s)

    def _delete_rows(self, where: str) -> int:
        gone = self._query_rows(where, ["id"])
        self._connected.delete(self._config.collection, filter=where, timeout=self._config.timeout_s)
        return len(gone)

    @property
    def _connected(self) -> MilvusClient:
        if self._client is None:
            raise RuntimeError("it is not connected")
        return self._client


def _create_collection(client: MilvusClient, name: str) -> None:
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=64)
    for field in ("scope", "exact", *HASHED_FIELDS):
        schema.add_field(field, DataType.VARCHAR, max_length=64)
    for field in ("question", "answer"):
        schema.add_field(field, DataType.VARCHAR, max_length=_MAX_VARCHAR_BYTES)
    for field in ("created_at", "expires_at"):
        schema.add_field(field, DataType.DOUBLE)
    schema.add_field(_HAS_VECTOR, DataType.BOOL)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=_SIZE)
    index = client.prepare_index_params()
    index.add_index("vector", index_type="FLAT", metric_type="COSINE")
    client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")


def _encode_row(entry: CacheEntry) -> dict[str, Any]:
    vector = np.zeros(_SIZE, np.float32) if entry.vector is None else entry.vector
    return {
        "id": entry.id,
        "scope": entry.scope,
        "exact": entry.exact,
        "question": entry.question,
        "answer": b64encode(entry.answer).decode("ascii"),
        "tenant": stored_value("tenant", entry.tenant),
        "user": "" if entry.user is None else stored_value("user", entry.user),
        "model": stored_value("model", entry.model),
        "created_at": entry.created_at,
        "expires_at": min(entry.expires_at, _NEVER),
        _HAS_VECTOR: entry.vector is not None,
        "vector": vector.tolist(),
    }


def _decode_row(row: dict[str, Any]) -> CacheEntry:
    vector = np.asarray(row["vector"], np.float32) if row.get(_HAS_VECTOR) and "vector" in row else None
    expires_at = float(row["expires_at"])
    return CacheEntry(
        id=row["id"],
        scope=row["scope"],
        exact=row["exact"],
        question=row["question"],
        vector=vector,
        answer=b64decode(row["answer"]),
        tenant=row["tenant"],
        user=row["user"] or None,
        model="",
        created_at=float(row["created_at"]),
        expires_at=inf if expires_at >= _NEVER else expires_at,
    )


def _quote_string(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _sanitize_error(error: Exception) -> str:
    """Return the error without addresses and tokens, which client messages may contain."""
    code = getattr(error, "code", None)
    return type(error).__name__ + (f" (code {code})" if code is not None else "")
