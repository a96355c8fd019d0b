"""The engine as others see it: submit token ids, iterate over outputs. The model runs in its own thread.

    event loop                                    engine thread
    submit, abort, aclose ──► inbox ────────────► between steps: add or end requests
    Generation ◄── call_soon_threadsafe ◄──────── after each step: all its outputs at once

Nothing else crosses. Neither waits for the other, so a long prefill never holds up the event loop.
"""

import asyncio
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue

import torch

from radixway.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.core import TextFactory
from radixway.engine.errors import EngineError, EngineStopped, GenerationFailed, InvalidRequest, QueueFull
from radixway.engine.events import CacheEvents, Publisher, PublisherInfo
from radixway.engine.info import EngineStats, ModelInfo
from radixway.engine.load import Progress
from radixway.engine.machine import usable_cores
from radixway.engine.request import Output, Request, SamplingParams

__all__ = ["Engine", "EngineStats", "Generation", "ModelInfo", "Progress", "TextFactory"]

log = logging.getLogger(__name__)

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


class Engine:
    """Loads the model when made (blocking: seconds; `progress` is told), runs between `start()` and `stop()`.

    `submit`, `abort`, `flush_cache` and `stats` are cheap and may be called from any thread; a `Generation`
    belongs to the event loop it was submitted from.
    """

    def __init__(
        self, config: EngineConfig, *, text: TextFactory | None = None, progress: Progress | None = None
    ) -> None:
        self.config = config
        self._threads = config.threads or usable_cores()
        torch.set_num_threads(self._threads)
        self._publisher = _publisher(config)
        events = (
            CacheEvents(config.page_size, self._publisher.publish) if self._publisher is not None else None
        )
        try:
            self._core = build_core(config, text, progress, events)
        except Exception:
            self._close_publisher()
            raise
        self.model_info: ModelInfo = self._core.model_info
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()  # held while a request comes, goes or is looked up
        self._generations: dict[str, Generation] = {}  # who listens; under the lock
        self._thread = threading.Thread(target=self._run, name="radixway-engine", daemon=True)
        self._stopped = False

    def start(self) -> None:
        """Start the step loop's thread."""
        self._thread.start()

    def stop(self) -> None:
        """End what runs (its streams raise `EngineStopped`), and wait for the thread. Safe to call twice."""
        self._stopped = True
        if self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join()
        self._close_publisher()

    def submit(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request_id: str | None = None,
        namespace: str = "",
        priority: int = 0,
    ) -> Generation:
        """Queue one request; must be called with a running event loop.

        Raises `ContextTooLong` or another `InvalidRequest` (4xx), `QueueFull` (429) or `EngineStopped` (503).
        """
        self._check_running()
        name = request_id or uuid.uuid4().hex
        request = self._core.request(name, prompt_ids, params, namespace, priority)
        generation = Generation(request, self._leave)
        with self._lock:
            self._check_running()  # again: the last to be told that it stops have been told under the lock
            taken = len(self._generations)
            if taken >= self.config.max_running + self.config.max_queued:
                raise QueueFull(f"{taken} requests run or wait, and no more are taken; try again later")
            if name in self._generations:
                raise InvalidRequest("request_id", f"a request with the id {name!r} has not finished yet")
            self._generations[name] = generation
            self._inbox.put(partial(self._add, generation))
        return generation

    def abort(self, request_id: str) -> bool:
        """End a request now; its stream gets a last output with finish `abort`. False if there is none."""
        with self._lock:
            generation = self._generations.get(request_id)
            if generation is not None:
                self._inbox.put(partial(self._abort, generation))
        return generation is not None

    def flush_cache(self) -> bool:
        """Drop every cached prefix. False (and nothing dropped) while requests run or wait."""
        self._check_running()
        with self._lock:
            if self._generations:
                return False
            self._inbox.put(self._core.flush_cache)  # after the aborts of those who left
        return True

    def stats(self) -> EngineStats:
        """Raises `EngineStopped` when the engine does not run."""
        self._check_running()
        return self._core.stats()

    @property
    def kv_events(self) -> PublisherInfo | None:
        """Where the cache's events are published; None if they are not."""
        publisher = self._publisher
        return publisher.info if publisher is not None else None

    def _close_publisher(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def _check_running(self) -> None:
        if self._stopped or not self._thread.is_alive():
            raise EngineStopped("the engine is not running")

    def _leave(self, generation: Generation) -> None:
        """Nobody listens to this one any more."""
        with self._lock:
            if self._generations.get(generation.request_id) is generation:
                del self._generations[generation.request_id]
                self._inbox.put(partial(self._abort, generation))

    # Below: the engine thread.

    def _run(self) -> None:
        try:
            torch.set_num_threads(self._threads)  # OpenMP keeps the number per thread
            while self._take_inbox():
                with self._surviving():
                    self._deliver(self._core.step())
        finally:
            self._stopped = True
            self._fail(EngineStopped("the engine was stopped"))

    def _take_inbox(self) -> bool:
        """Do what was asked for since the last step; wait if there is nothing to compute. False: stop."""
        while self._inbox.qsize() or not self._core.busy:
            task = self._inbox.get()
            if task is None:
                return False
            with self._surviving():
                task()
        return True

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """Whatever fails in here ends the requests there are; the engine goes on for later ones."""
        try:
            yield
        except Exception as error:
            log.exception("the engine failed; its requests are dropped")
            self._core.reset()
            self._fail(GenerationFailed(f"the engine failed: {error}"))
        self._core.hand_over_events()

    def _add(self, generation: Generation) -> None:
        if self._generations.get(generation.request_id) is generation:
            self._core.add(generation._request)

    def _abort(self, generation: Generation) -> None:
        output = self._core.abort(generation._request)
        if output is not None:
            self._deliver([(generation._request, output)])

    def _deliver(self, outputs: Iterable[tuple[Request, Output]]) -> None:
        """Give outputs to those who (still) listen."""
        events = []
        with self._lock:
            for request, output in outputs:
                generation = self._generations.get(request.id)
                if generation is not None and generation._request is request:  # ids come back
                    events.append((generation, output))
                    if output.finish is not None:
                        del self._generations[request.id]
        self._send(events)

    def _fail(self, error: EngineError) -> None:
        """Tell everyone."""
        with self._lock:
            failed = list(self._generations.values())
            self._generations.clear()
        self._send((generation, error) for generation in failed)

    def _send(self, events: "Iterable[tuple[Generation, Event]]") -> None:
        """Cross to the event loops: one call for each, however many events."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Generation, Event]]] = {}
        for generation, event in events:
            by_loop.setdefault(generation._loop, []).append((generation, event))
        for loop, its_events in by_loop.items():
            try:
                loop.call_soon_threadsafe(_push, its_events)
            except RuntimeError:  # the loop was closed: nobody listens there any more
                for generation, _ in its_events:
                    self._leave(generation)


def _publisher(config: EngineConfig) -> Publisher | None:
    """Raises EngineError if the endpoints cannot be used."""
    if config.kv_events_endpoint is None:
        return None
    return Publisher(
        config.kv_events_endpoint,
        replay_endpoint=config.kv_events_replay_endpoint,
        topic=config.kv_events_topic,
        form=config.kv_events_format,
    )


def _push(events: "list[tuple[Generation, Event]]") -> None:
    for generation, event in events:
        generation._events.put_nowait(event)
