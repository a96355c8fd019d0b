"""The workers that this gateway knows, the candidates for each model, and limits on what each is given."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from radixway.core.config import RoutingConfig, WorkerSettings
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import ServerInfo, Worker, WorkerState

log = logging.getLogger(__name__)


class WorkerRegistry:
    """Workers by URL. Candidates per model are kept ready, because every request asks for them."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._candidates: dict[str | None, tuple[Worker, ...]] = {}
        self._prefillers: dict[str | None, tuple[Worker, ...]] = {}
        self._some_only_decode: bool | None = None
        self._some_hosted: bool | None = None
        self._known_models: frozenset[str] | None = None
        self._alone: dict[Worker, bool] = {}
        self.on_add: list[Callable[[Worker], None]] = []
        self.on_remove: list[Callable[[Worker], None]] = []
        self.on_state: list[Callable[[Worker], None]] = []
        self.on_learn: list[Callable[[Worker], None]] = []
        """Called when a worker's description changes."""

    def __iter__(self) -> Iterator[Worker]:
        return iter(tuple(self._workers.values()))

    def __len__(self) -> int:
        return len(self._workers)

    def add_worker(self, section: WorkerSettings) -> Worker:
        """Add the worker of `section`. A known one is updated, and comes back if it drained."""
        worker = self._workers.get(section.url)
        if worker is None:
            worker = self._workers[section.url] = Worker(section)
        else:
            worker.update_config(section)
            if worker.state is WorkerState.DRAINING:
                self.set_state(worker, WorkerState.JOINING)
        self._invalidate_candidates()
        for tell in self.on_add:
            tell(worker)
        return worker

    def get_worker(self, url: str) -> Worker | None:
        """The worker of that URL; a trailing slash does not matter."""
        return self._workers.get(url.rstrip("/"))

    def remove_worker(self, url: str) -> Worker | None:
        """Remove the worker at `url`; None if unknown. Requests in flight there go on to their end."""
        worker = self._workers.pop(url.rstrip("/"), None)
        if worker is not None:
            worker.removed = True
            self._invalidate_candidates()
            for tell in self.on_remove:
                tell(worker)
        return worker

    def set_state(self, worker: Worker, state: WorkerState) -> None:
        """Move `worker` to `state` and call the listeners."""
        if worker.state is not state:
            worker.state = state
            self._invalidate_candidates()
            for tell in tuple(self.on_state):
                tell(worker)

    def update_info(self, worker: Worker, findings: ServerInfo) -> None:
        """Store `findings`, which the worker reports of itself."""
        if worker.info != findings:
            worker.info = findings
            if worker.config.role not in ("any", worker.role):
                log.warning(
                    "worker %s is a Radixway engine that was not started to %s only: it prefills and decodes",
                    worker.name,
                    worker.config.role,
                )
            self._invalidate_candidates()
            for tell in tuple(self.on_learn):
                tell(worker)

    def candidates(self, model: str | None) -> tuple[Worker, ...]:
        """The ready workers that may answer for `model`, or for any model when it is None.

        Those that only prefill are not among them, nor those that only decode and have no prefill worker.
        """
        found = self._candidates.get(model)
        if found is None:
            dialects = {worker.dialect for worker in self.prefillers(model)}
            found = tuple(
                worker
                for worker in self._ready_workers(model)
                if worker.answers_alone or (worker.role == "decode" and worker.dialect in dialects)
            )
            if found:  # unknown names come from clients: never grow with them
                self._candidates[model] = found
        return found

    def is_only_worker(self, worker: Worker, model: str | None) -> bool:
        """Return True if no other worker serves or may serve `model`, ready or not."""
        alone = self._alone.get(worker)
        if alone is None:
            others = [other for other in self._workers.values() if other is not worker]
            mine = set(worker.models)
            alone = all(other.models and mine.isdisjoint(other.models) for other in others)
            self._alone[worker] = alone
        return alone and (model is not None or len(self._workers) == 1)

    def prefillers(self, model: str | None) -> tuple[Worker, ...]:
        """The ready workers that prefill `model` for others."""
        found = self._prefillers.get(model)
        if found is None:
            found = tuple(worker for worker in self._ready_workers(model) if worker.role == "prefill")
            if found or model is None:
                self._prefillers[model] = found
        return found

    def has_decode_only(self) -> bool:
        """Return True if any ready worker only decodes."""
        if self._some_only_decode is None:
            self._some_only_decode = any(worker.role == "decode" for worker in self._ready_workers(None))
        return self._some_only_decode

    def has_hosted(self) -> bool:
        """Return True if any worker is a provider's, ready or not."""
        if self._some_hosted is None:
            self._some_hosted = any(worker.hosted is not None for worker in self._workers.values())
        return self._some_hosted

    def _ready_workers(self, model: str | None) -> Iterator[Worker]:
        for worker in self._workers.values():
            if worker.state is WorkerState.READY and (model is None or model in worker.models):
                yield worker

    def known_models(self) -> frozenset[str]:
        """Return every model that a known worker serves, ready or not."""
        if self._known_models is None:
            workers = self._workers.values()
            self._known_models = frozenset(model for worker in workers for model in worker.models)
        return self._known_models

    def definitely_lacks_model(self, model: str) -> bool:
        """Return True if no worker serves `model` and all have reported their models."""
        workers = self._workers.values()
        return bool(workers) and all(worker.models and model not in worker.models for worker in workers)

    def _invalidate_candidates(self) -> None:
        self._candidates = {}
        self._prefillers = {}
        self._some_only_decode = None
        self._some_hosted = None
        self._known_models = None
        self._alone = {}


class WorkerLimits:
    """Requests in flight and KV tokens in use, per worker. Without a limit anywhere nothing is looked at."""

    def __init__(self, config: RoutingConfig) -> None:
        self._per_worker = config.max_in_flight_per_worker
        self._per_slot = config.max_in_flight_per_slot
        self._kv_share = config.max_kv_share
        self._everywhere = any(
            limit is not None for limit in (self._per_worker, self._per_slot, self._kv_share)
        )
        self.on = self._everywhere

    def refresh_limits(self, workers: Iterable[Worker]) -> None:
        """Update `on` after `workers` or their limits have changed."""
        self.on = self._everywhere or any(worker.config.max_in_flight is not None for worker in workers)

    def max_requests(self, worker: Worker) -> int | None:
        """Requests that `worker` is given at a time; None if there is no limit."""
        if worker.config.max_in_flight is not None:
            return worker.config.max_in_flight
        if self._per_worker is not None:
            return self._per_worker
        if self._per_slot is not None and worker.max_batch_size is not None:
            return max(1, int(self._per_slot * worker.max_batch_size))
        return None

    def has_capacity(self, worker: Worker, request: RoutingRequest) -> bool:
        """Return True if `worker` may get `request` now. An idle worker takes any, however long."""
        load = worker.load
        if not load.all_requests:
            return True
        max_requests = self.max_requests(worker)
        if max_requests is not None and load.all_requests >= max_requests:
            return False
        if self._kv_share is None or worker.kv_tokens is None:
            return True
        shared = load.shared_blocks(request.blocks) * request.block_tokens
        in_use = load.all_blocks * request.block_tokens
        return in_use + request.tokens - shared <= self._kv_share * worker.kv_tokens

    def filter_with_capacity(self, candidates: Sequence[Worker], request: RoutingRequest) -> Sequence[Worker]:
        """Return the `candidates` that may get `request` now."""
        if not self.on:
            return candidates
        return tuple(worker for worker in candidates if self.has_capacity(worker, request))
