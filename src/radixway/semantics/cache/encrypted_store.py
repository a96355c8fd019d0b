"""Questions and answers sealed wherever they lie: AES-GCM around any store. Needs `cryptography`."""

import os
from base64 import b64decode, b64encode
from dataclasses import replace

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from radixway.semantics.cache.store import CacheEntry, CacheStore, EntryFilter, EntryMatch, Vector

_NONCE_BYTES = 12


class EncryptedStore(CacheStore):
    """Seals what goes in and opens what comes out; what does not open (another key, tampered) is not there.

    A seal holds id, scope and time of the entry, so that no answer can be moved to another question. Vectors
    stay as they are, because the store has to compare them: they tell roughly what a question was about.
    """

    def __init__(self, inner: CacheStore, key: SecretStr) -> None:
        """`key`: 16, 24 or 32 bytes in base64."""
        self._inner = inner
        self._aes = AESGCM(b64decode(key.get_secret_value()))
        self.name = inner.name

    async def open_store(self) -> None:
        await self._inner.open_store()

    async def find_exact(self, scope: str, exact: str, now: float) -> CacheEntry | None:
        entry = await self._inner.find_exact(scope, exact, now)
        return None if entry is None else self._decrypt_entry(entry)

    async def find_nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[EntryMatch]:
        matches = await self._inner.find_nearest(scope, vector, k, now)
        opened = ((self._decrypt_entry(match.entry), match.similarity) for match in matches)
        return [EntryMatch(entry, similarity) for entry, similarity in opened if entry is not None]

    async def put_entry(self, entry: CacheEntry, now: float) -> None:
        bound = _associated_data(entry)
        question = b64encode(self._encrypt(entry.question.encode("utf-8", "surrogatepass"), bound)).decode(
            "ascii"
        )
        await self._inner.put_entry(
            replace(entry, question=question, answer=self._encrypt(entry.answer, bound)), now
        )

    async def mark_used(self, entry: CacheEntry) -> None:
        await self._inner.mark_used(entry)

    async def remove_entries(self, which: EntryFilter) -> int:
        return await self._inner.remove_entries(which)

    async def count_entries(self) -> int:
        return await self._inner.count_entries()

    async def close_store(self) -> None:
        await self._inner.close_store()

    def _encrypt(self, plain: bytes, bound: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aes.encrypt(nonce, plain, bound)

    def _decrypt_entry(self, entry: CacheEntry) -> CacheEntry | None:
        bound = _associated_data(entry)
        try:
            question = self._decrypt(b64decode(entry.question), bound).decode("utf-8", "surrogatepass")
            return replace(entry, question=question, answer=self._decrypt(entry.answer, bound))
        except (InvalidTag, ValueError):
            return None

    def _decrypt(self, sealed: bytes, bound: bytes) -> bytes:
        return self._aes.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound)


def _associated_data(entry: CacheEntry) -> bytes:
    return f"{entry.id}|{entry.scope}|{entry.exact}|{entry.created_at!r}".encode()
