"""The engine as others see it: submit token ids, iterate over outputs. The model runs in its own thread.

    event loop                                    engine thread
    submit, abort, aclose ──► inbox ────────────► between steps: add or end requests
    Generation ◄── call_soon_threadsafe ◄──────── after each step: all its outputs at once

Nothing else crosses. Neither waits for the other, so a long prefill never holds up the event loop.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal, TypeVar

import torch
from torch import Tensor

from radixway.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.cache import CachedPrefix
from radixway.engine.core import TextFactory
from radixway.engine.disaggregation import Departures, Room
from radixway.engine.disaggregation.identity import weights_digest
from radixway.engine.download import Progress
from radixway.engine.errors import EngineError, EngineStopped, GenerationFailed, InvalidRequest, QueueFull
from radixway.engine.events import CacheEvents, Publisher, PublisherInfo
from radixway.engine.generation import Event, Generation, send
from radixway.engine.inbox import Inbox
from radixway.engine.info import EngineStats, ModelInfo
from radixway.engine.machine import usable_cores
from radixway.engine.model import Model
from radixway.engine.request import Output, Request, SamplingParams
from radixway.engine.weights import Weights, find_weight

__all__ = ["Engine", "EngineStats", "Generation", "ModelInfo", "PauseMode", "Progress", "TextFactory"]

log = logging.getLogger(__name__)

T = TypeVar("T")

PauseMode = Literal["abort", "retract", "in_place"]
"""What becomes of running requests: ended; back into the queue, their KV free to go; or kept as they are."""


class Engine:
    """Loads the model when made (blocking: seconds; `progress` is told), runs between `start()` and `stop()`.

    `submit`, `abort` and `stats` are cheap; what changes the engine as a whole waits for the end of a step,
    so an event loop calls it in a thread. A `Generation` belongs to the event loop it was submitted from.
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
        self._inbox = Inbox()
        if isinstance(self._core.side, Departures):
            self._core.side.wake = lambda: self._inbox.put(self._core.scheduler.release_departed)
        self._updating = threading.Lock()  # held while new weights are loaded: one update at a time
        self._lock = threading.Lock()  # held while a request comes, goes or is looked up
        self._generations: dict[str, Generation] = {}  # who listens; under the lock
        self._thread = threading.Thread(target=self._run, name="radixway-engine", daemon=True)
        self._stopped = False

    def start(self) -> None:
        """Start the step loop's thread."""
        self._thread.start()

    def stop(self) -> None:
        """End what runs (its streams raise `EngineStopped`), and wait for the thread. Safe to call twice."""
        if not self._stopped and self._thread.ident is None:
            self._core.close()  # it was never started, so its thread cannot
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
        room: Room | None = None,
    ) -> Generation:
        """Queue one request; must be called with a running event loop.

        With a `room` a prefill engine only prefills it, and a decode engine fetches its KV from there.

        Raises `ContextTooLong` or another `InvalidRequest` (4xx), `QueueFull` (429) or `EngineStopped` (503).
        """
        self._check_running()
        name = request_id or uuid.uuid4().hex
        try:
            request = self._core.request(name, prompt_ids, params, namespace, priority, room)
            generation = Generation(request, self._leave)
            with self._lock:
                self._check_running()  # again: the last to be told that it stops are told under the lock
                self._check_room_for(name)
                self._core.announce(request)
                self._generations[name] = generation
                self._inbox.put(partial(self._add, generation))
        except EngineError:
            self._core.refuse(room)
            raise
        return generation

    def abort(self, request_id: str) -> bool:
        """End a request now; its stream gets a last output with finish `abort`. False if there is none."""
        with self._lock:
            generation = self._generations.get(request_id)
            if generation is not None:
                self._inbox.put(partial(self._abort, generation))
        return generation is not None

    def flush_cache(self) -> bool:
        """Drop every cached prefix. False (and nothing dropped) while requests are using some of it."""
        return self._ask(self._core.flush_cache)

    def cached_prefixes(self, most: int, most_levels: int) -> list[CachedPrefix]:
        """The `most` prefixes in the cache that were used most."""
        return self._ask(partial(self._core.scheduler.cache.outline, most, most_levels))

    def pause(self, mode: PauseMode) -> None:
        """Compute nothing until `resume`; requests that come meanwhile wait. See `PauseMode`."""
        self._ask(partial(self._pause, mode))

    def resume(self) -> None:
        """Go on after a pause; does nothing if there is none."""
        self._ask(self._core.resume)

    def update_weights(
        self, weights: Weights, *, version: str | None = None, keep_kv: bool = False, abort: bool = False
    ) -> None:
        """Load other weights for the same architecture and go on with them, in a pause or out of one.

        Generation goes on while they load. Then, between two steps, running requests are put back into the
        queue and the cache is dropped, so that no KV of the old weights is used again; unless `keep_kv`,
        which leaves running requests what they have. `abort` ends all requests first. Tokens sampled from
        here on carry `version`, if one is given. Raises EngineError, and then nothing has changed.
        """
        with self._updating:
            self._check_running()
            model = weights.load(self._core.runner.model)
            digest = weights_digest(model) if self._core.side is not None else ""
            self._ask(partial(self._use, weights, model, version, keep_kv, abort, digest))

    def set_weight_version(self, version: str, *, abort: bool = False) -> None:
        """Call the weights as they are `version` from here on."""
        with self._updating:
            self._ask(partial(self._rename, version, abort))

    def weight(self, name: str) -> Tensor | None:
        """The weights' tensor of that name in a checkpoint; None if the model has none."""
        return find_weight(self._core.runner.model, name)

    @property
    def model_info(self) -> ModelInfo:
        """What model this is, and which version of its weights it runs with now."""
        return self._core.model_info

    def stats(self) -> EngineStats:
        """Raises `EngineStopped` when the engine does not run."""
        self._check_running()
        return self._core.stats()

    @property
    def bootstrap_port(self) -> int | None:
        """Where decode engines come for KV; None if this is no prefill engine."""
        side = self._core.side
        return side.port if side is not None else None

    @property
    def kv_events(self) -> PublisherInfo | None:
        """Where the cache's events are published; None if they are not."""
        publisher = self._publisher
        return publisher.info if publisher is not None else None

    def _close_publisher(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def _ask(self, work: Callable[[], T]) -> T:
        """Have the engine thread do something between two steps, and wait for the result."""
        self._check_running()
        return self._inbox.ask(work)

    def _check_running(self) -> None:
        if self._stopped or not self._thread.is_alive():
            raise EngineStopped("the engine is not running")

    def _check_room_for(self, name: str) -> None:
        taken = len(self._generations)
        if taken >= self.config.max_running + self.config.max_queued:
            raise QueueFull(f"{taken} requests run or wait, and no more are taken; try again later")
        if name in self._generations:
            raise InvalidRequest("request_id", f"a request with the id {name!r} has not finished yet")

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
            self._core.hand_over_events()  # what was found on disk
            while self._take_inbox():
                with self._surviving():
                    self._deliver(self._core.step())
        finally:
            self._stopped = True
            self._inbox.close()
            self._fail(EngineStopped("the engine was stopped"))
            self._core.close()

    def _take_inbox(self) -> bool:
        """Do what was asked for since the last step; wait if there is nothing to compute. False: stop."""
        while len(self._inbox) or not self._core.busy:
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

    def _abort_all(self) -> None:
        with self._lock:
            generations = list(self._generations.values())
        for generation in generations:
            self._abort(generation)

    def _pause(self, mode: PauseMode) -> None:
        if mode == "abort":
            self._abort_all()
        self._core.pause(keep_running=mode == "in_place")

    def _use(
        self, weights: Weights, model: Model, version: str | None, keep_kv: bool, abort: bool, digest: str
    ) -> None:
        if abort:
            self._abort_all()
        self._core.use_weights(model, path=weights.path, version=version, keep_kv=keep_kv, digest=digest)

    def _rename(self, version: str, abort: bool) -> None:
        if abort:
            self._abort_all()
        self._core.rename_weights(version)

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

    def _send(self, events: Iterable[tuple[Generation, Event]]) -> None:
        for generation in send(events):
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
