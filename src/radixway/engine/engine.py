"""The engine's public interface: submit token ids, iterate over outputs. The model runs in its own thread.

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

from radixway.core.config.engine import EngineConfig
from radixway.core.usable_cores import count_usable_cores
from radixway.engine.build import build_core
from radixway.engine.command_queue import CommandQueue
from radixway.engine.disaggregation import PrefillKVManager
from radixway.engine.engine_core import TextFactory
from radixway.engine.engine_info import EngineStats, ModelInfo
from radixway.engine.engine_request import BootstrapRoom, EngineRequest, RequestOutput
from radixway.engine.errors import (
    EngineError,
    EngineQueueFullError,
    EngineStoppedError,
    GenerationError,
    InvalidRequestError,
)
from radixway.engine.generation_stream import GenerationStream, StreamEvent, deliver_events
from radixway.engine.hub_download import LoadProgress
from radixway.engine.kv_cache_manager import CachedPrefix
from radixway.engine.kv_events import KVEventRecorder, PublisherInfo, ZmqEventPublisher
from radixway.engine.kv_identity import digest_weights
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.weight_update import WeightUpdate, find_weight

log = logging.getLogger(__name__)

T = TypeVar("T")

PauseMode = Literal["abort", "retract", "in_place"]
"""What happens to running requests: ended; requeued, their KV free to evict; or kept in place."""


class Engine:
    """Loads the model when made (blocking, seconds; see `progress`), runs between `start()` and `stop()`.

    `submit_request`, `abort_request` and `stats` are cheap; what changes the engine as a whole waits for the
    end of a step, so an event loop calls it in a thread. A `GenerationStream` belongs to the event loop it
    was submitted from.
    """

    def __init__(
        self, config: EngineConfig, *, text: TextFactory | None = None, progress: LoadProgress | None = None
    ) -> None:
        self.config = config
        self._threads = config.threads or count_usable_cores()
        torch.set_num_threads(self._threads)
        self._publisher = _make_publisher(config)
        events = (
            KVEventRecorder(config.page_size, self._publisher.publish_events)
            if self._publisher is not None
            else None
        )
        try:
            self._core = build_core(config, text, progress, events)
        except Exception:
            self._close_publisher()
            raise
        self._inbox = CommandQueue()
        if isinstance(self._core.transfer_manager, PrefillKVManager):
            self._core.transfer_manager.wake = lambda: self._inbox.put_command(
                self._core.scheduler.free_sent_requests
            )
        self._updating = threading.Lock()  # held while new weights are loaded: one update at a time
        self._lock = threading.Lock()  # held while a request comes, goes or is looked up
        self._generations: dict[str, GenerationStream] = {}  # who listens; under the lock
        self._thread = threading.Thread(target=self._step_loop, name="radixway-engine", daemon=True)
        self._stopped = False

    def start(self) -> None:
        """Start the step loop's thread."""
        self._thread.start()

    def stop(self) -> None:
        """End what runs (streams raise `EngineStoppedError`) and wait for the thread. Idempotent."""
        if not self._stopped and self._thread.ident is None:
            self._core.shutdown()  # it was never started, so its thread cannot
        self._stopped = True
        if self._thread.is_alive():
            self._inbox.put_command(None)
            self._thread.join()
        self._close_publisher()

    def submit_request(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request_id: str | None = None,
        namespace: str = "",
        priority: int = 0,
        room: BootstrapRoom | None = None,
    ) -> GenerationStream:
        """Queue one request; must be called with a running event loop.

        With a `room` a prefill engine only prefills it, and a decode engine fetches its KV from there.

        Raises `ContextLengthError` or another `InvalidRequestError` (4xx), `EngineQueueFullError` (429) or
        `EngineStoppedError` (503).
        """
        self._check_running()
        name = request_id or uuid.uuid4().hex
        try:
            request = self._core.make_request(name, prompt_ids, params, namespace, priority, room)
            generation = GenerationStream(request, self._drop_stream)
            with self._lock:
                self._check_running()  # again: `stop` ends waiting requests under the lock
                self._check_queue_limit(name)
                self._core.announce_prefill(request)
                self._generations[name] = generation
                self._inbox.put_command(partial(self._add_request, generation))
        except EngineError:
            self._core.refuse_room(room)
            raise
        return generation

    def abort_request(self, request_id: str) -> bool:
        """End `request_id` now; its stream gets a last output with finish `abort`. False if there is none."""
        with self._lock:
            generation = self._generations.get(request_id)
            if generation is not None:
                self._inbox.put_command(partial(self._abort_request, generation))
        return generation is not None

    def flush_cache(self) -> bool:
        """Drop every cached prefix. False (and nothing dropped) while requests are using some of it."""
        return self._call_on_thread(self._core.flush_cache)

    def cached_prefixes(self, limit: int, max_levels: int) -> list[CachedPrefix]:
        """List the `limit` prefixes in the cache that were used most, at most `max_levels` deep."""
        return self._call_on_thread(partial(self._core.scheduler.cache.list_prefixes, limit, max_levels))

    def pause_generation(self, mode: PauseMode) -> None:
        """Compute nothing until `resume_generation`; `mode` decides about running requests."""
        self._call_on_thread(partial(self._pause_core, mode))

    def resume_generation(self) -> None:
        """Go on after a pause; does nothing if there is none."""
        self._call_on_thread(self._core.resume_scheduling)

    def update_weights(
        self, weights: WeightUpdate, *, version: str | None = None, keep_kv: bool = False, abort: bool = False
    ) -> None:
        """Load other weights for the same architecture and go on with them, in a pause or out of one.

        Generation goes on while they load. Then, between two steps, running requests are put back into the
        queue and the cache is dropped, so that no KV of the old weights is used again; unless `keep_kv`,
        which leaves running requests what they have. `abort` ends all requests first. Tokens sampled from
        here on carry `version`, if one is given. Raises EngineError, and then nothing has changed.
        """
        with self._updating:
            self._check_running()
            model = weights.load_weights(self._core.runner.model)
            digest = digest_weights(model) if self._core.transfer_manager is not None else ""

            update = partial(
                self._core.update_weights,
                model,
                path=weights.path,
                version=version,
                keep_kv=keep_kv,
                digest=digest,
            )
            self._call_on_thread(update, abort=abort)

    def set_weight_version(self, version: str, *, abort: bool = False) -> None:
        """Name the current weights `version` from here on. `abort` ends all requests first."""
        with self._updating:
            self._call_on_thread(partial(self._core.set_weight_version, version), abort=abort)

    def find_weight(self, name: str) -> Tensor | None:
        """The weights' tensor of that name in a checkpoint; None if the model has none."""
        return find_weight(self._core.runner.model, name)

    @property
    def model_info(self) -> ModelInfo:
        """The model, with the version of its weights that is in use now."""
        return self._core.model_info

    def stats(self) -> EngineStats:
        """Raises `EngineStoppedError` when the engine does not run."""
        self._check_running()
        return self._core.stats()

    @property
    def bootstrap_port(self) -> int | None:
        """The port that decode engines fetch KV from; None if this is no prefill engine."""
        transfer_manager = self._core.transfer_manager
        return transfer_manager.port if isinstance(transfer_manager, PrefillKVManager) else None

    @property
    def kv_events(self) -> PublisherInfo | None:
        """The publisher of the cache's events; None if they are not published."""
        publisher = self._publisher
        return publisher.info if publisher is not None else None

    def _close_publisher(self) -> None:
        if self._publisher is not None:
            self._publisher.shutdown()
            self._publisher = None

    def _call_on_thread(self, work: Callable[[], T], *, abort: bool = False) -> T:
        """Do `work` between two steps; `abort`: end all requests first."""
        self._check_running()

        def abort_and_work() -> T:
            self._abort_all()
            return work()

        return self._inbox.call_and_wait(abort_and_work if abort else work)

    def _check_running(self) -> None:
        if self._stopped or not self._thread.is_alive():
            raise EngineStoppedError("the engine is not running")

    def _check_queue_limit(self, name: str) -> None:
        taken = len(self._generations)
        if taken >= self.config.max_running + self.config.max_queued:
            message = f"{taken} requests run or wait, and no more are taken; try again later"
            raise EngineQueueFullError(message)
        if name in self._generations:
            raise InvalidRequestError("request_id", f"a request with the id {name!r} has not finished yet")

    def _drop_stream(self, generation: GenerationStream) -> None:
        with self._lock:
            if self._generations.get(generation.request_id) is generation:
                del self._generations[generation.request_id]
                self._inbox.put_command(partial(self._abort_request, generation))

    # Below: the engine thread.

    def _step_loop(self) -> None:
        try:
            torch.set_num_threads(self._threads)  # OpenMP keeps the number per thread
            self._core.flush_events()  # what was found on disk
            while self._run_commands():
                with self._contain_failures():
                    self._deliver_outputs(self._core.step())
        finally:
            self._stopped = True
            self._inbox.close_queue()
            self._fail_all(EngineStoppedError("the engine was stopped"))
            self._core.shutdown()

    def _run_commands(self) -> bool:
        """Run queued commands; wait if there is nothing to compute. Return False to stop."""
        while len(self._inbox) or not self._core.has_work:
            task = self._inbox.next_command()
            if task is None:
                return False
            with self._contain_failures():
                task()
        return True

    @contextmanager
    def _contain_failures(self) -> Iterator[None]:
        """End all requests after a failure inside; the engine goes on for later ones."""
        try:
            yield
        except Exception as error:
            log.exception("the engine failed; its requests are dropped")
            self._core.reset_state()
            self._fail_all(GenerationError(f"the engine failed: {error}"))
        self._core.flush_events()

    def _add_request(self, generation: GenerationStream) -> None:
        if self._generations.get(generation.request_id) is generation:
            self._core.add_request(generation.request)

    def _abort_request(self, generation: GenerationStream) -> None:
        output = self._core.abort_request(generation.request)
        if output is not None:
            self._deliver_outputs([(generation.request, output)])

    def _abort_all(self) -> None:
        with self._lock:
            generations = list(self._generations.values())
        for generation in generations:
            self._abort_request(generation)

    def _pause_core(self, mode: PauseMode) -> None:
        if mode == "abort":
            self._abort_all()
        self._core.pause_scheduling(keep_running=mode == "in_place")

    def _deliver_outputs(self, outputs: Iterable[tuple[EngineRequest, RequestOutput]]) -> None:
        events = []
        with self._lock:
            for request, output in outputs:
                generation = self._generations.get(request.id)
                if generation is not None and generation.request is request:  # ids come back
                    events.append((generation, output))
                    if output.finish is not None:
                        del self._generations[request.id]
        self._send_events(events)

    def _fail_all(self, error: EngineError) -> None:
        with self._lock:
            failed = list(self._generations.values())
            self._generations.clear()
        self._send_events((generation, error) for generation in failed)

    def _send_events(self, events: Iterable[tuple[GenerationStream, StreamEvent]]) -> None:
        for generation in deliver_events(events):
            self._drop_stream(generation)


def _make_publisher(config: EngineConfig) -> ZmqEventPublisher | None:
    if config.kv_events_endpoint is None:
        return None
    return ZmqEventPublisher(
        config.kv_events_endpoint,
        replay_endpoint=config.kv_events_replay_endpoint,
        topic=config.kv_events_topic,
        form=config.kv_events_format,
    )
