"""Lists of tools that clients send, read once however often they come."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextvars import Context
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from radixway.semantics.tools.tool_definition import ToolDefinition
from radixway.semantics.tools.tool_index import ToolIndex

if TYPE_CHECKING:
    from radixway.semantics.tools.profile_cache import ToolProfileCache

_AT_ONCE = 4
"""Lists encoded at a time; further requests keep all their tools."""

_MAX_DESCRIPTION_CHARS = 400_000
"""Characters of a list's names and descriptions: encoding them takes seconds, and the encoder is shared."""

_encode = msgspec.msgpack.encode


class ClientToolIndexes:
    """Indexes of lists by digest, the latest used, bounded by their tools. Belongs to one event loop."""

    def __init__(self, profiles: ToolProfileCache, *, max_tools: int = 4096) -> None:
        self._profiles = profiles
        self.max_tools = max_tools
        self._tools = 0
        self._known: OrderedDict[bytes, ToolIndex] = OrderedDict()
        self._reading: dict[bytes, asyncio.Task[ToolIndex]] = {}

    async def find_index(self, tools: Sequence[ToolDefinition], wait_s: float) -> ToolIndex | None:
        """The index of a list; None where it takes longer than `wait_s`, and then it is read on for the next.

        None at once for a list of more tools than may be kept, or of too many words, and where too many lists
        are being read. Raises EncoderError.
        """
        chars = sum(len(tool.name) + len(tool.description) for tool in tools)
        if len(tools) > self.max_tools or chars > _MAX_DESCRIPTION_CHARS:
            return None
        digest = blake2b(_encode([(tool.name, tool.description) for tool in tools]), digest_size=16).digest()
        known = self._known.get(digest)
        if known is not None:
            self._known.move_to_end(digest)
            return known
        reading = self._reading.get(digest)
        if reading is None:
            if len(self._reading) >= _AT_ONCE:
                return None
            # In a context of its own: it outlives the request that began it.
            reading = asyncio.create_task(self._build_index(digest, tools), context=Context())
            reading.add_done_callback(_retrieve_exception)
            self._reading[digest] = reading
        await asyncio.wait({reading}, timeout=wait_s)
        return reading.result() if reading.done() and not reading.cancelled() else None

    async def cancel_builds(self) -> None:
        """Cancel what is being read."""
        for reading in (left := tuple(self._reading.values())):
            reading.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def check(self) -> None:
        """Raises AssertionError where the count or the bound is wrong."""
        assert self._tools == sum(len(index) for index in self._known.values()) <= self.max_tools
        assert len(self._reading) <= _AT_ONCE

    async def _build_index(self, digest: bytes, tools: Sequence[ToolDefinition]) -> ToolIndex:
        try:
            index = await asyncio.to_thread(ToolIndex, tools, await self._profiles.profiles_for(tools))
        finally:
            del self._reading[digest]
        self._known[digest] = index
        self._tools += len(index)
        while self._tools > self.max_tools:
            _, oldest = self._known.popitem(last=False)
            self._tools -= len(oldest)
        return index


def _retrieve_exception(reading: asyncio.Task[ToolIndex]) -> None:
    """Retrieve the exception, so that asyncio does not log it."""
    if not reading.cancelled():
        reading.exception()
