"""Reply: an answer, whole or as a stream of chunks, and the tokens it used."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, Self


class Chunks(Protocol):
    """The bytes of a streamed answer. Whoever holds a stream must close it, read to the end or not."""

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> bytes:
        """The next bytes, always whole server-sent events. Raises StreamBroken if the worker breaks off."""
        ...

    async def pass_on(self, send: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        """Await `send` for every chunk to the end; a stream may know a faster way. Raises StreamBroken."""
        async for chunk in self:
            await send(chunk)

    async def aclose(self) -> None:
        """Let go of the worker: stops its work if unfinished, frees its slot. May be called again."""
        ...


@dataclass(slots=True)
class TokenUsage:
    """Tokens of one request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt's, those that the worker had cached."""
    estimated: bool = False
    """The worker reported no figures, or not all."""
    tells_cached: bool = field(default=False, compare=False)
    """The worker says how many were cached, none perhaps."""

    @property
    def total_tokens(self) -> int:
        """Prompt and answer."""
        return self.prompt_tokens + self.completion_tokens

    def explain(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }
        if self.tells_cached:
            told["cached_tokens"] = self.cached_tokens
        return told | {"estimated": True} if self.estimated else told

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.estimated or other.estimated,
            self.tells_cached or other.tells_cached,
        )


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
    """Tokens of a whole answer of one worker, as that worker reports them."""
