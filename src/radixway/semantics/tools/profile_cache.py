"""Tools' vectors, each made once: kept by digest in memory, those of a database in a file between runs."""

from __future__ import annotations

import asyncio
import logging
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from radixway.core.atomic_file import write_atomically
from radixway.semantics.tools.tool_definition import ToolDefinition
from radixway.semantics.tools.tool_index import ToolProfile, build_profile, tool_texts

if TYPE_CHECKING:
    from radixway.semantics.encoders import EncoderService

log = logging.getLogger(__name__)

_encode = msgspec.msgpack.encode


class ToolProfileCache:
    """Asks the encoder for what is not known yet, one text after the other, so that requests go between."""

    def __init__(self, encoder: EncoderService, *, max_tools: int = 16_384, home: Path | None = None) -> None:
        """`max_tools`: profiles kept in memory (LRU). `home`: the folder for profiles of tool databases."""
        self._encoder = encoder
        self._max_tools = max_tools
        self._home = home
        self._known: OrderedDict[bytes, ToolProfile] = OrderedDict()

    async def profiles_for(self, tools: Sequence[ToolDefinition]) -> list[ToolProfile]:
        """Return one profile per tool. Raises EncoderError."""
        identity = (await self._encoder.wait_until_ready()).id
        return [await self._encode_profile(identity, tool) for tool in tools]

    async def database_profiles(self, tools: Sequence[ToolDefinition], path: Path) -> list[ToolProfile]:
        """Return one per tool; what an earlier run read of the database at `path` is not read again.

        Raises EncoderError.
        """
        identity = (await self._encoder.wait_until_ready()).id
        digests = [_profile_digest(identity, tool) for tool in tools]
        file = None if self._home is None else self._home / f"tools-{_database_file_name(path)}.npz"
        if file is not None and file.is_file() and not self._known.keys() >= set(digests):
            for digest, profile in (await asyncio.to_thread(_read_profiles, file)).items():
                self._store_profile(digest, profile)
        missing = sum(digest not in self._known for digest in digests)
        if missing:
            log.info("semantic: encoding %d new tools of %s", missing, path)
        profiles = await self.profiles_for(tools)
        if missing and file is not None:
            await asyncio.to_thread(_write_profiles, file, digests, profiles)
        return profiles

    async def _encode_profile(self, identity: str, tool: ToolDefinition) -> ToolProfile:
        digest = _profile_digest(identity, tool)
        known = self._known.get(digest)
        if known is None:
            texts = tool_texts(tool)
            vectors = {
                text: (await self._encoder.encode_unshared(text)).vector for text in dict.fromkeys(texts)
            }
            known = build_profile(texts, vectors)
            self._store_profile(digest, known)
        self._known.move_to_end(digest)
        return known

    def _store_profile(self, digest: bytes, profile: ToolProfile) -> None:
        self._known[digest] = profile
        while len(self._known) > self._max_tools:
            self._known.popitem(last=False)

    def check(self) -> None:
        """Raises AssertionError where the bound does not hold or a vector is not of unit length."""
        assert len(self._known) <= self._max_tools
        for profile in self._known.values():
            rows = np.vstack([profile.description, profile.name, profile.clauses])
            assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)


def _profile_digest(identity: str, tool: ToolDefinition) -> bytes:
    return blake2b(_encode((identity, tool_texts(tool))), digest_size=16).digest()


def _database_file_name(path: Path) -> str:
    return blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()


def _write_profiles(file: Path, digests: Sequence[bytes], profiles: Sequence[ToolProfile]) -> None:
    """One digest, of 16 bytes, per profile. Where the file cannot be written the next start takes longer."""
    nothing = np.full_like(profiles[0].description, np.nan)
    arrays: dict[str, Any] = {
        "digests": np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16),
        "descriptions": np.stack([profile.description for profile in profiles]),
        "names": np.stack([profile.name for profile in profiles]),
        "clauses": np.concatenate([profile.clauses for profile in profiles]),
        "clause_counts": np.array([len(profile.clauses) for profile in profiles]),
        "examples": np.stack([nothing if tool.examples is None else tool.examples for tool in profiles]),
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        written = BytesIO()
        np.savez(written, **arrays)
        write_atomically(file, written.getvalue())
    except OSError as error:
        log.warning("semantic: tools are encoded again at every start: %s: %s", file, error.strerror)


def _read_profiles(file: Path) -> dict[bytes, ToolProfile]:
    """Those that were written, by digest; none, and a warning, where the file cannot be used."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            counts = arrays["clause_counts"]
            clauses = np.split(arrays["clauses"], np.cumsum(counts)[:-1])
            examples = [None if np.isnan(row[0]) else row for row in arrays["examples"]]
            digests = [row.tobytes() for row in arrays["digests"]]
            rows = zip(arrays["descriptions"], arrays["names"], clauses, examples, strict=True)
            return {digest: ToolProfile(*row) for digest, row in zip(digests, rows, strict=True)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        log.warning("semantic: rebuilding %s: %s", file, error)
        return {}
