"""One request's texts, each read once however many heads ask."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

from radixway.semantics.encoders.base import EncoderError, TextEncoding

R = TypeVar("R")
T = TypeVar("T")


SHARED_CHARACTERS = 100_000
"""Of a text whose states come with every pass: 120 MB, for as long as the request lasts. Whoever wants those
of a longer one reads it in parts."""


class UnsharedEncoder(Protocol):
    """The encoder behind `RequestEncodings`: an `EncoderService`."""

    async def encode_unshared(self, text: str, *, layers: Sequence[int] = ()) -> TextEncoding:
        """Encode `text` again, with the states of `layers`."""
        ...


class EncoderTimeoutError(EncoderError):
    """A text was not read in the time that its request could wait; it goes on without."""


@dataclass(slots=True, eq=False)
class _EncoderPass:
    """One text's pass through the encoder."""

    layers: frozenset[int]
    reading: asyncio.Task[TextEncoding]
    awaiting: int = 0


class RequestEncodings:
    """Text → encoding, for as long as a request lasts. Belongs to one event loop.

    Heads that ask at the same time share a pass, those that ask later find its result. A failure is shared
    likewise: a request is understood by all heads or by none. A pass that no request awaits ends.
    """

    def __init__(
        self, service: UnsharedEncoder, layers: Sequence[int] = (), *, wait_s: float | None = None
    ) -> None:
        """`layers` are those that any head may want: they come with every pass, so that one is enough, unless
        the text has more than `SHARED_CHARACTERS`.

        `wait_s`: how long a pass may take; then all who ask for that text get EncoderTimeoutError.
        """
        self.service = service
        self._wait_s = wait_s
        self._layers = frozenset(layers)
        self._passes: dict[str, _EncoderPass] = {}

    async def encode(self, text: str, *, layers: Sequence[int] = ()) -> TextEncoding:
        """See `EncoderService.encode_unshared`; `states` may hold more layers than asked for. Do not change
        it.
        """
        found = self._passes.get(text)
        if found is None or not found.layers.issuperset(layers):
            shared = self._layers if len(text) <= SHARED_CHARACTERS else frozenset()
            found = self._start_pass(text, frozenset(layers) | (found.layers if found else shared))
        found.awaiting += 1
        try:
            return await asyncio.shield(found.reading)
        finally:
            found.awaiting -= 1
            if not found.awaiting and not found.reading.done():
                found.reading.cancel()
                if self._passes.get(text) is found:
                    del self._passes[text]

    def is_asked_for(self, text: str) -> bool:
        """Return whether `text` has been read, or is being read."""
        return text in self._passes

    def _start_pass(self, text: str, layers: frozenset[int]) -> _EncoderPass:
        reading = asyncio.ensure_future(self._encode_text(text, layers))
        begun = self._passes[text] = _EncoderPass(layers, reading)
        return begun

    async def _encode_text(self, text: str, layers: frozenset[int]) -> TextEncoding:
        try:
            async with asyncio.timeout(self._wait_s):
                return await self.service.encode_unshared(text, layers=sorted(layers))
        except TimeoutError:
            why = f"{len(text)} characters were not read within {self._wait_s:g} s (encoders.wait_s)"
            raise EncoderTimeoutError(why) from None


of_this_request: ContextVar[RequestEncodings | None] = ContextVar("of_this_request", default=None)
"""Encodings shared during a request, which `EncoderService.encode` uses within `EncodeOnceMiddleware`."""


class EncodeOnceMiddleware:
    """Middleware: encodes every text once per request, for all callers of `EncoderService.encode`."""

    step_name = "OnePass"

    def __init__(
        self, service: UnsharedEncoder, layers: Sequence[int] = (), *, wait_s: float | None = None
    ) -> None:
        """`layers`, `wait_s`: see `RequestEncodings`."""
        self._service = service
        self._layers = tuple(layers)
        self._wait_s = wait_s

    async def __call__(self, request: R, call_next: Callable[[R], Awaitable[T]]) -> T:
        with encode_once(self._service, self._layers, wait_s=self._wait_s):
            return await call_next(request)


@contextmanager
def encode_once(
    service: UnsharedEncoder, layers: Sequence[int] = (), *, wait_s: float | None = None
) -> Iterator[None]:
    """Within it, in this task and those it starts, every text is read once. Within another it does nothing.

    `layers`, `wait_s`: see `RequestEncodings`.
    """
    current = of_this_request.get()
    if current is not None and current.service is service:
        yield
        return
    token = of_this_request.set(RequestEncodings(service, layers, wait_s=wait_s))
    try:
        yield
    finally:
        of_this_request.reset(token)
