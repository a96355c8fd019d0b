"""Questions and answers sealed wherever they lie: AES-GCM around any store. Needs `cryptography`."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from dataclasses import replace

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from radixway.semantic_cache.entry import Entry, Filter, Match, Vector
from radixway.semantic_cache.store import Store

_NONCE_BYTES = 12


class SealedStore:
    """Seals what goes in and opens what comes out; what does not open (another key, tampered) is not there.

    A seal holds id, scope and time of the entry, so that no answer can be moved to another question. Vectors
    stay as they are, because the store has to compare them: they tell roughly what a question was about.
    """

    def __init__(self, inner: Store, key: SecretStr) -> None:
        """`key`: 16, 24 or 32 bytes in base64."""
        self._inner = inner
        self._aes = AESGCM(b64decode(key.get_secret_value()))
        self.name = inner.name

    async def open(self) -> None:
        """See `Store`."""
        await self._inner.open()

    async def find(self, scope: str, exact: str, now: float) -> Entry | None:
        """See `Store`."""
        entry = await self._inner.find(scope, exact, now)
        return None if entry is None else self._opened(entry)

    async def nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[Match]:
        """See `Store`."""
        matches = await self._inner.nearest(scope, vector, k, now)
        opened = ((self._opened(match.entry), match.similarity) for match in matches)
        return [Match(entry, similarity) for entry, similarity in opened if entry is not None]

    async def put(self, entry: Entry, now: float) -> None:
        """See `Store`."""
        bound = _bound(entry)
        question = b64encode(self._seal(entry.question.encode("utf-8", "surrogatepass"), bound)).decode(
            "ascii"
        )
        await self._inner.put(replace(entry, question=question, answer=self._seal(entry.answer, bound)), now)

    async def used(self, entry: Entry) -> None:
        """See `Store`."""
        await self._inner.used(entry)

    async def remove(self, which: Filter) -> int:
        """See `Store`."""
        return await self._inner.remove(which)

    async def size(self) -> int:
        """See `Store`."""
        return await self._inner.size()

    async def close(self) -> None:
        """See `Store`."""
        await self._inner.close()

    def _seal(self, plain: bytes, bound: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aes.encrypt(nonce, plain, bound)

    def _opened(self, entry: Entry) -> Entry | None:
        bound = _bound(entry)
        try:
            question = self._open(b64decode(entry.question), bound).decode("utf-8", "surrogatepass")
            return replace(entry, question=question, answer=self._open(entry.answer, bound))
        except (InvalidTag, ValueError):
            return None

    def _open(self, sealed: bytes, bound: bytes) -> bytes:
        return self._aes.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound)


def _bound(entry: Entry) -> bytes:
    return f"{entry.id}|{entry.scope}|{entry.exact}|{entry.created_at!r}".encode()
