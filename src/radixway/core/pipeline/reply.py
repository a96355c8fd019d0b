"""What comes back: whole, or as a stream of chunks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from radixway.core.pipeline.usage import TokenUsage


class Chunks(Protocol):
    """The bytes of a streamed answer. Whoever holds a stream must close it, read to the end or not."""

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> bytes:
        """The next bytes, always whole server-sent events. Raises StreamBroken if the worker breaks off."""
        ...

    async def pass_on(self, send: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        """Await `send` for every chunk, in order, to the end. Raises StreamBroken.

        A stream that can do better than a loop over itself overrides this.
        """
        async for chunk in self:
            await send(chunk)

    async def aclose(self) -> None:
        """Let go of the worker: stops its work if unfinished, frees its slot. May be called again."""
        ...


@dataclass(slots=True, eq=False)
class Reply:
    """An answer: `body` when it is whole, `chunks` when it streams (its first chunk has arrived by then)."""

    status: int
    headers: list[tuple[bytes, bytes]]
    """Names in lower case; without framing headers (content-length, transfer-encoding …)."""
    worker: str
    """Name of the worker that answered."""
    body: bytes = b""
    chunks: Chunks | None = None
    used: TokenUsage | None = None
    """What a whole answer of one worker took, by its word; for whoever asked that worker."""
