"""Tools' vectors, each made once: kept by digest in memory, those of a database in a file between runs."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from radixway.semantics.tools.profile_file import read_profiles, write_profiles
from radixway.semantics.tools.tool_definition import ToolDefinition
from radixway.semantics.tools.tool_index import ToolProfile, build_profile, tool_texts

if TYPE_CHECKING:
    from radixway.semantics.encoders import EncoderService

log = logging.getLogger(__name__)

_encode = msgspec.msgpack.encode


class ToolProfileCache:
    """Asks the encoder for what is not known yet, one text after the other, so that requests go between."""

    def __init__(self, encoder: EncoderService, *, most: int = 16_384, home: Path | None = None) -> None:
        """`most` tools are kept in memory, the latest used. `home`: the folder for those of databases."""
        self._encoder = encoder
        self._most = most
        self._home = home
        self._known: OrderedDict[bytes, ToolProfile] = OrderedDict()

    async def profiles_for(self, tools: Sequence[ToolDefinition]) -> list[ToolProfile]:
        """One per tool. Raises EncoderError."""
        identity = (await self._encoder.wait_until_ready()).id
        return [await self._encode_profile(identity, tool) for tool in tools]

    async def database_profiles(self, tools: Sequence[ToolDefinition], path: Path) -> list[ToolProfile]:
        """The same; what an earlier run read of the database at `path` is not read again.

        Raises EncoderError.
        """
        identity = (await self._encoder.wait_until_ready()).id
        digests = [_profile_digest(identity, tool) for tool in tools]
        file = None if self._home is None else self._home / f"tools-{_database_file_name(path)}.npz"
        if file is not None and file.is_file() and not self._known.keys() >= set(digests):
            for digest, profile in (await asyncio.to_thread(read_profiles, file)).items():
                self._store_profile(digest, profile)
        missing = sum(digest not in self._known for digest in digests)
        if missing:
            log.info("semantic: %d tools of %s are read for the first time", missing, path)
        profiles = await self.profiles_for(tools)
        if missing and file is not None:
            await asyncio.to_thread(write_profiles, file, digests, profiles)
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
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def check(self) -> None:
        """Raises AssertionError where the bound does not hold or a vector is not of unit length."""
        assert len(self._known) <= self._most
        for profile in self._known.values():
            rows = np.vstack([profile.description, profile.name, profile.clauses])
            assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)


def _profile_digest(identity: str, tool: ToolDefinition) -> bytes:
    return blake2b(_encode((identity, tool_texts(tool))), digest_size=16).digest()


def _database_file_name(path: Path) -> str:
    return blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()
