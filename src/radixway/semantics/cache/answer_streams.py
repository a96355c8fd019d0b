"""Streams of answers: one that is overheard on its way to the client, and one given from the cache."""

from collections.abc import Callable, Sequence
from typing import Self

from radixway.core.pipeline import Chunks, SendChunk


class CapturedStream(Chunks):
    """Passes on every chunk at once and, when the stream has come to its end, hands all of them over.

    A stream that breaks off, or whose client leaves, hands over nothing; neither does one of more than
    `max_bytes`.
    """

    def __init__(self, inner: Chunks, max_bytes: int, at_end: Callable[[bytes | None], None]) -> None:
        self._inner = inner
        self._bytes_left = max_bytes
        self._chunks: list[bytes] = []
        self._at_end = at_end

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._inner.__anext__()
        except StopAsyncIteration:
            self._hand_over()
            raise
        self._capture_chunk(chunk)
        return chunk

    async def pass_on(self, send: SendChunk) -> None:
        """See `Chunks`."""

        async def hear_and_send(chunk: bytes) -> None:
            self._capture_chunk(chunk)
            await send(chunk)

        await self._inner.pass_on(hear_and_send)
        self._hand_over()

    async def aclose(self) -> None:
        """See `Chunks`."""
        self._chunks.clear()
        await self._inner.aclose()

    def _capture_chunk(self, chunk: bytes) -> None:
        self._bytes_left -= len(chunk)
        if self._bytes_left < 0:
            self._chunks.clear()
        else:
            self._chunks.append(chunk)

    def _hand_over(self) -> None:
        self._at_end(b"".join(self._chunks) if self._bytes_left >= 0 else None)
        self._chunks.clear()


class ReplayedStream(Chunks):
    """The events of a kept answer."""

    def __init__(self, events: Sequence[bytes]) -> None:
        self._events = iter(events)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for event in self._events:
            return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """See `Chunks`."""
        self._events = iter(())
