"""One request's outputs on their way from the engine thread to an event loop."""

import asyncio
from collections.abc import Callable, Iterable

from radixway.engine.errors import EngineError
from radixway.engine.request import Output, Request

Event = Output | EngineError


class Generation:
    """One request's outputs, as an async iterator; ends after the one that has `finish`.

    `aclose()`, or cancelling whoever waits for the next output, aborts the request. Iterating raises
    EngineError when the engine fails or stops.
    """

    def __init__(self, request: Request, leave: "Callable[[Generation], None]") -> None:
        self.request_id = request.id
        self._request = request
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._ended = False

    def __aiter__(self) -> "Generation":
        return self

    async def __anext__(self) -> Output:
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
            self._leave(self)


def send(events: "Iterable[tuple[Generation, Event]]") -> "list[Generation]":
    """Cross to the event loops, one call for each. Returns those whose loop was closed."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Generation, Event]]] = {}
    for generation, event in events:
        by_loop.setdefault(generation._loop, []).append((generation, event))
    unheard = []
    for loop, its_events in by_loop.items():
        try:
            loop.call_soon_threadsafe(_push, its_events)
        except RuntimeError:
            unheard += [generation for generation, _ in its_events]
    return unheard


def _push(events: "list[tuple[Generation, Event]]") -> None:
    for generation, event in events:
        generation._events.put_nowait(event)
