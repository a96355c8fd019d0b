"""One request's outputs on their way from the engine thread to an event loop."""

import asyncio
from collections.abc import Callable, Iterable
from time import perf_counter

from radixway.engine.engine_request import EngineRequest, RequestOutput
from radixway.engine.errors import EngineError

StreamEvent = RequestOutput | EngineError


class GenerationStream:
    """A request's outputs, as an async iterator; ends after the one that has `finish`.

    `aclose()`, or cancelling the task that waits for the next output, aborts the request. Iterating raises
    EngineError when the engine fails or stops.
    """

    def __init__(self, request: EngineRequest, on_close: "Callable[[GenerationStream], None]") -> None:
        self.request_id = request.id
        self.request = request
        """Belongs to the engine thread; others may look at its counts and times."""
        self.submitted_at = perf_counter()
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[StreamEvent] = asyncio.Queue()
        self._ended = False

    def __aiter__(self) -> "GenerationStream":
        return self

    async def __anext__(self) -> RequestOutput:
        if self._ended:
            raise StopAsyncIteration
        try:
            event = await self._events.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if isinstance(event, EngineError):
            self._ended = True
            raise event
        self._ended = event.finish is not None
        return event

    async def aclose(self) -> None:
        """Stop generating; its pages are free before the next step. Does nothing once it has finished."""
        if not self._ended:
            self._ended = True
            self._on_close(self)


def deliver_events(events: "Iterable[tuple[GenerationStream, StreamEvent]]") -> "list[GenerationStream]":
    """Push `events` to their event loops, one call each. Returns the streams whose loop was closed."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[GenerationStream, StreamEvent]]] = {}
    for generation, event in events:
        by_loop.setdefault(generation._loop, []).append((generation, event))
    closed = []
    for loop, its_events in by_loop.items():
        try:
            loop.call_soon_threadsafe(_push_events, its_events)
        except RuntimeError:
            closed += [generation for generation, _ in its_events]
    return closed


def _push_events(events: "list[tuple[GenerationStream, StreamEvent]]") -> None:
    for generation, event in events:
        generation._events.put_nowait(event)
