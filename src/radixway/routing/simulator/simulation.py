"""Replays a trace against modelled engines, with the gateway's own selector choosing among them."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import merge
from math import inf
from operator import itemgetter

from radixway.core.config import AnyPolicy, RoutingConfig, WorkerSettings
from radixway.routing import (
    LoadShare,
    RoutingRequest,
    Selector,
    Worker,
    WorkerChoice,
    WorkerLease,
    WorkerState,
)
from radixway.routing.simulator.engine_model import EngineConstants, EngineModel, SimulatedRequest
from radixway.routing.simulator.trace import RequestTrace


class SimulatedGateway:
    """A gateway: a selector of its own, and the workers as it sees them."""

    def __init__(
        self, policy: AnyPolicy, workers: int, kv_tokens: int, clock: Callable[[], float], seed: int
    ) -> None:
        self.selector = Selector(RoutingConfig(policy=policy), clock=clock, rng=random.Random(seed))
        self.workers: list[Worker] = []
        for _ in range(workers):
            self.add_worker(kv_tokens)

    def add_worker(self, kv_tokens: int) -> Worker:
        """Add a worker."""
        worker = Worker(WorkerSettings(url=f"http://worker-{len(self.workers)}", kv_tokens=kv_tokens))
        worker.state = WorkerState.READY
        self.selector.add_worker(worker)
        self.workers.append(worker)
        return worker


class LoadExchange:
    """Tells every gateway of each step of the others' leases, `delay_s` later."""

    def __init__(
        self, gateways: Sequence[SimulatedGateway], delay_s: float, clock: Callable[[], float]
    ) -> None:
        self._gateways = gateways
        self._delay_s = delay_s
        self._clock = clock
        self._on_the_way: deque[tuple[float, int, int, LoadShare]] = deque()
        """Arrival time, gateway, worker, load."""
        self._last_shares = [[LoadShare()] * len(gateway.workers) for gateway in gateways]
        """By gateway and worker: the last load received."""
        for number, gateway in enumerate(gateways):
            gateway.selector.ledger.on_step = self._listener(number, gateway)

    @property
    def next_delivery_at(self) -> float | None:
        """Time of the next delivery in seconds; None if nothing is under way."""
        return self._on_the_way[0][0] if self._on_the_way else None

    def deliver_next(self) -> None:
        """Deliver the next load share to the other gateways."""
        _, sender, number, share = self._on_the_way.popleft()
        self._last_shares[sender][number] = share
        for receiver, gateway in enumerate(self._gateways):
            if receiver != sender:
                others = (shares[number] for peer, shares in enumerate(self._last_shares) if peer != receiver)
                gateway.selector.ledger.set_remote_load(gateway.workers[number], LoadShare.sum_shares(others))

    def _listener(self, number: int, gateway: SimulatedGateway) -> Callable[[Worker], None]:
        def note(worker: Worker) -> None:
            at = self._clock() + self._delay_s
            self._on_the_way.append((at, number, gateway.workers.index(worker), worker.load.to_share()))

        return note


_TEXT_OFFSET = 0xE000
"""Maps blocks to characters for text policies, beyond the surrogates."""


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Parameters of a simulation besides the trace and the policy."""

    workers: int = 8
    kv_tokens: int = 2_000_000
    """Tokens that each worker's cache holds."""
    speedup: float = 1.0
    """How much faster than in the trace the requests come."""
    events: bool = True
    """Whether workers publish KV events; without, the selector predicts caches by what it sent."""
    event_delay_s: float = 0.01
    """Seconds from a change of a cache to its event at the selector."""
    constants: EngineConstants = field(default_factory=EngineConstants)
    seed: int = 0
    """Seed of policies that choose at random."""
    gateways: int = 1
    """Gateways of the same workers; requests go to them in turn."""
    sync_delay_s: float | None = None
    """How late each gateway hears of the others' load; None: never."""

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot be simulated."""
        for name, minimum, maximum in (
            ("workers", 1, 10_000),
            ("kv_tokens", 1, 10**12),
            ("event_delay_s", 0, 10**6),
            ("gateways", 1, 1000),
            ("sync_delay_s", 0, 10**6),
        ):
            value = getattr(self, name)
            if value is not None and not minimum <= value <= maximum:
                bound = f"at least {minimum}" if value < minimum else f"at most {maximum}"
                raise ValueError(f"{name} must be {bound}, not {value}")
        if not 0 < self.speedup < inf:
            raise ValueError(f"speedup must be above 0, not {self.speedup}")


@dataclass(slots=True)
class SimulationOutcome:
    """Results by request, in the order in which they finished, and by worker."""

    ttft_s: list[float] = field(default_factory=list)
    itl_s: list[float] = field(default_factory=list)
    """Mean seconds between the tokens of each answer of two tokens and more."""
    input_tokens: int = 0
    cached_tokens: int = 0
    expected_cached_tokens: int | None = None
    """The selector's prediction; None if its policy reads no blocks."""
    skipped: int = 0
    """Unsent requests, too large for any worker's cache."""
    arrived_s: list[float] = field(default_factory=list)
    work_s: list[float] = field(default_factory=list)
    """Per worker, the seconds that its tokens cost it (see `EngineModel.work_s`)."""
    busy_s: list[float] = field(default_factory=list)
    """Per worker."""
    requests: list[int] = field(default_factory=list)
    """Per worker."""


class _EventFeed:
    def __init__(self) -> None:
        self.engine: EngineModel
        self.pending: deque[tuple[float, bool, Sequence[int]]] = deque()

    def note_change(self, stored: bool, blocks: Sequence[int]) -> None:
        self.pending.append((self.engine.now, stored, blocks))


class TraceSimulation:
    """Runs one policy over one trace. Deterministic: the same arguments give the same outcome."""

    def __init__(self, trace: RequestTrace, policy: AnyPolicy, setting: SimulationSettings) -> None:
        self._trace = trace
        self._setting = setting
        self._now = 0.0
        self._gateways: list[SimulatedGateway] = []
        for number in range(setting.gateways):
            gateway = SimulatedGateway(
                policy, setting.workers, setting.kv_tokens, self._clock, setting.seed + number
            )
            for worker in gateway.workers:
                gateway.selector.index.set_followed(worker.slot, setting.events)
            self._gateways.append(gateway)
        self._exchange: LoadExchange | None = None
        if setting.sync_delay_s is not None:
            self._exchange = LoadExchange(self._gateways, setting.sync_delay_s, self._clock)
        self._feeds: list[_EventFeed] = []
        for _ in range(setting.workers):
            self._add_engine()
        self._leases: dict[int, WorkerLease] = {}
        self._outcome = SimulationOutcome()

    def run_trace(self, progress: Callable[[int], None] = lambda done: None) -> SimulationOutcome:
        """Replay the whole trace. `progress` is called now and then with the requests sent so far."""
        policy, expected = self._gateways[0].selector.policy_for_model(None), 0
        for number, traced in enumerate(self._trace.requests):
            if number % 256 == 0:
                progress(number)
            if not self._feeds[0].engine.fits_request(traced.input_tokens, traced.output_tokens):
                self._outcome.skipped += 1
                continue
            now = traced.at / self._setting.speedup
            self._run_engines_until(now)
            self._now = now
            self._deliver_events(now)
            request = RoutingRequest(
                tokens=traced.input_tokens,
                blocks=traced.blocks,
                block_tokens=self._trace.block_tokens,
                tokenized=True,
                session=None if traced.session is None else str(traced.session),
                text=_blocks_to_text(traced.blocks) if policy.reads_text else "",
                stream=True,
            )
            gateway = self._gateways[number % len(self._gateways)]
            choice = gateway.selector.select_worker(request, self._candidates(gateway))
            job = SimulatedRequest(traced.blocks, traced.input_tokens, traced.output_tokens, now)
            self._leases[id(job)] = gateway.selector.reserve(choice)
            self._feeds[gateway.workers.index(choice.worker)].engine.submit_request(job, now)
            expected += choice.cached_tokens
            self._on_sent(choice)
        self._run_engines_until(inf)
        progress(len(self._trace.requests))
        self._outcome.expected_cached_tokens = expected if policy.reads_blocks else None
        self._outcome.work_s = [feed.engine.work_s for feed in self._feeds]
        self._outcome.busy_s = [feed.engine.busy_s for feed in self._feeds]
        self._outcome.requests = [
            sum(gateway.workers[number].load.total for gateway in self._gateways)
            for number in range(len(self._feeds))
        ]
        return self._outcome

    def check(self) -> None:
        """Check every count, here and in the parts. Raises AssertionError with the difference."""
        for gateway in self._gateways:
            gateway.selector.index.check()
        for number, feed in enumerate(self._feeds):
            feed.engine.check()
            in_hand = sum(gateway.workers[number].load.requests for gateway in self._gateways)
            running = feed.engine.running
            assert in_hand == running, f"{in_hand} requests in flight, {running} running"

    def _add_engine(self) -> None:
        setting = self._setting
        feed = _EventFeed()
        feed.engine = EngineModel(
            setting.constants, self._trace.block_tokens, setting.kv_tokens, feed.note_change
        )
        self._feeds.append(feed)

    def _candidates(self, gateway: SimulatedGateway) -> Sequence[Worker]:
        return gateway.workers

    def _on_sent(self, choice: WorkerChoice) -> None:
        """A request is on its way."""

    def _on_token(self, job: SimulatedRequest) -> None:
        """A request's first token has come or, once it is `finished`, its last."""

    def _run_engines_until(self, now: float) -> None:
        happened = merge(*(feed.engine.run_until(now) for feed in self._feeds), key=itemgetter(0))
        for when, job in happened:
            self._exchange_until(when)
            self._now = when
            if job.finished:
                self._leases.pop(id(job)).release()
                self._record_finished(job)
            else:
                self._leases[id(job)].mark_prefill_done()
            self._on_token(job)
        self._exchange_until(now)

    def _exchange_until(self, now: float) -> None:
        """Exchange loads between gateways until `now`."""
        exchange = self._exchange
        while exchange is not None and (at := exchange.next_delivery_at) is not None and at <= now:
            self._now = at
            exchange.deliver_next()

    def _clock(self) -> float:
        return self._now

    def _deliver_events(self, now: float) -> None:
        if not self._setting.events:
            return
        until = now - self._setting.event_delay_s
        for number, feed in enumerate(self._feeds):
            pending = feed.pending
            while pending and pending[0][0] <= until:
                _, stored, blocks = pending.popleft()
                for gateway in self._gateways:
                    index, slot = gateway.selector.index, gateway.workers[number].slot
                    (index.add_blocks if stored else index.remove_blocks)(slot, blocks)

    def _record_finished(self, job: SimulatedRequest) -> None:
        outcome = self._outcome
        outcome.arrived_s.append(job.arrived)
        outcome.ttft_s.append(job.first_token - job.arrived)
        if job.output_tokens > 1:
            outcome.itl_s.append((job.finished - job.first_token) / (job.output_tokens - 1))
        outcome.input_tokens += job.input_tokens
        outcome.cached_tokens += job.cached_tokens


def _blocks_to_text(blocks: Sequence[int]) -> str:
    span = 0x110000 - _TEXT_OFFSET
    return "".join(chr(_TEXT_OFFSET + block % span) for block in blocks)
