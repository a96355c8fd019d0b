"""Replays a trace against modelled engines, with the gateway's own selector choosing among them."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf

from radixway.core.config import AnyPolicy, QueueConfig
from radixway.routing import RoutingRequest, WorkerChoice, WorkerLease
from radixway.routing.simulator.engine_model import EngineConstants, EngineModel, SimulatedRequest
from radixway.routing.simulator.simulated_gateway import LoadExchange, SimulatedGateway
from radixway.routing.simulator.trace import RequestTrace

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
    queue: QueueConfig = field(default_factory=QueueConfig)
    """Which requests wait at the gateways, and for how long."""
    slo_ttft_s: float = 1.0
    """A request counts as good whose first token takes no longer, …"""
    slo_itl_s: float = inf
    """… nor its tokens on average."""
    open_loop: bool = False
    """Requests come at their timestamps, also where the trace says how long after an answer they came."""

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot be simulated."""
        for name, minimum, maximum in (
            ("workers", 1, 10_000),
            ("kv_tokens", 1, 10**12),
            ("event_delay_s", 0, 10**6),
            ("gateways", 1, 1000),
            ("sync_delay_s", 0, 10**6),
            ("slo_ttft_s", 0, inf),
            ("slo_itl_s", 0, inf),
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
    good: int = 0
    """Requests within the objectives of the settings."""
    held: int = 0
    """Requests that waited at a gateway for a worker."""
    held_s: float = 0.0
    """Seconds that those waited there, in all."""
    preemptions: int = 0
    """Requests that engines preempted, each time counted."""
    most_held: int = 0
    """Requests that waited at a time at most, at one gateway."""


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
            gateway = SimulatedGateway(policy, setting.queue, self._clock, setting.seed + number)
            for _ in range(setting.workers):
                worker = gateway.add_worker(setting.kv_tokens)
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
        self._reads_text = self._gateways[0].selector.policy_for_model(None).reads_text
        self._expected_tokens = 0
        self._arrivals: list[tuple[float, int]] = []
        """Heap of the requests that come at a known time: when, and their numbers."""
        self._following: dict[int, deque[int]] = {}
        """By session, the numbers of its requests that come after the answers to those before them."""
        self._senders = [self._make_sender(gateway) for gateway in self._gateways]
        self._schedule_arrivals()

    def run_trace(self, progress: Callable[[int], None] = lambda done: None) -> SimulationOutcome:
        """Replay the whole trace. `progress` is called now and then with the requests sent so far."""
        policy, sent = self._gateways[0].selector.policy_for_model(None), 0
        while True:
            event_at = self._next_event_at()
            if self._arrivals and self._arrivals[0][0] < event_at:
                self._now, number = heappop(self._arrivals)
                if sent % 256 == 0:
                    progress(sent)
                sent += 1
                self._arrive(number)
            elif event_at < inf:
                self._now = event_at
                self._run_event()
            else:
                break
        progress(len(self._trace.requests))
        outcome, engines = self._outcome, [feed.engine for feed in self._feeds]
        outcome.expected_cached_tokens = self._expected_tokens if policy.reads_blocks else None
        outcome.work_s = [engine.work_s for engine in engines]
        outcome.preemptions = sum(engine.preemptions for engine in engines)
        outcome.busy_s = [engine.busy_s for engine in engines]
        outcome.requests = [
            sum(gateway.workers[number].load.total for gateway in self._gateways)
            for number in range(len(self._feeds))
        ]
        outcome.most_held = max(gateway.most_waiting for gateway in self._gateways)
        return outcome

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

    def _on_sent(self, job: SimulatedRequest, choice: WorkerChoice) -> None:
        """A request is on its way."""

    def _on_token(self, job: SimulatedRequest) -> None:
        """A request's first token has come or, once it is `finished`, its last."""

    def _schedule_arrivals(self) -> None:
        answered: set[int] = set()
        for number, traced in enumerate(self._trace.requests):
            session = traced.session
            if session in answered and traced.delay_s is not None and not self._setting.open_loop:
                self._following.setdefault(session, deque()).append(number)
            else:
                self._arrivals.append((traced.at / self._setting.speedup, number))
            if session is not None:
                answered.add(session)
        heapify(self._arrivals)

    def _arrive(self, number: int) -> None:
        """A request arrives at its gateway."""
        traced = self._trace.requests[number]
        if not self._feeds[0].engine.fits_request(traced.input_tokens, traced.output_tokens):
            self._outcome.skipped += 1
            self._end_turn(traced.session)
            return
        request = RoutingRequest(
            tokens=traced.input_tokens,
            blocks=traced.blocks,
            block_tokens=self._trace.block_tokens,
            tokenized=True,
            session=None if traced.session is None else str(traced.session),
            text=_blocks_to_text(traced.blocks) if self._reads_text else "",
            stream=True,
        )
        job = SimulatedRequest(traced.blocks, traced.input_tokens, traced.output_tokens, self._now)
        job.requested, job.session = self._now, traced.session
        gateway = number % len(self._gateways)
        self._deliver_events(self._now)
        self._gateways[gateway].route_request(request, job, self._senders[gateway])

    def _end_turn(self, session: int | None) -> None:
        """The session's answer has ended: its next request, if that waits for it, comes after the pause."""
        following = self._following.get(session) if session is not None else None
        if following:
            number = following.popleft()
            delay_s = self._trace.requests[number].delay_s or 0.0
            heappush(self._arrivals, (self._now + delay_s / self._setting.speedup, number))

    def _next_event_at(self) -> float:
        """When something happens next besides arrivals; infinity if nothing does."""
        at = min(feed.engine.next_event_at for feed in self._feeds)
        at = min(at, *(gateway.wake_at for gateway in self._gateways))
        if self._exchange is not None and (delivery_at := self._exchange.next_delivery_at) is not None:
            at = min(at, delivery_at)
        return at

    def _run_event(self) -> None:
        """Let happen what happens now."""
        exchange, now = self._exchange, self._now
        if exchange is not None and exchange.next_delivery_at == now:
            exchange.deliver_next()
        elif (engine := self._stepping_engine()) is not None:
            for _, job in engine.run_until(now):
                if job.finished:
                    self._leases.pop(id(job)).release()
                    self._record_finished(job)
                    self._end_turn(job.session)
                else:
                    self._leases[id(job)].mark_prefill_done()
                self._on_token(job)
        self._serve_queues()

    def _stepping_engine(self) -> EngineModel | None:
        return next((feed.engine for feed in self._feeds if feed.engine.next_event_at == self._now), None)

    def _serve_queues(self) -> None:
        if any(gateway.is_waiting for gateway in self._gateways):
            self._deliver_events(self._now)
            for gateway, send in zip(self._gateways, self._senders, strict=True):
                gateway.serve_queue(send)

    def _make_sender(self, gateway: SimulatedGateway) -> Callable[[SimulatedRequest, WorkerChoice], None]:
        def send(job: SimulatedRequest, choice: WorkerChoice) -> None:
            held_s = self._now - job.requested
            if held_s > 0:
                self._outcome.held += 1
                self._outcome.held_s += held_s
            self._leases[id(job)] = gateway.selector.reserve(choice)
            self._feeds[gateway.workers.index(choice.worker)].engine.submit_request(job, self._now)
            self._expected_tokens += choice.cached_tokens
            self._on_sent(job, choice)

        return send

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
        outcome, setting = self._outcome, self._setting
        ttft_s = job.first_token - job.requested
        itl_s = (job.finished - job.first_token) / (job.output_tokens - 1) if job.output_tokens > 1 else None
        outcome.arrived_s.append(job.requested)
        outcome.ttft_s.append(ttft_s)
        if itl_s is not None:
            outcome.itl_s.append(itl_s)
        outcome.good += ttft_s <= setting.slo_ttft_s and (itl_s or 0.0) <= setting.slo_itl_s
        outcome.input_tokens += job.input_tokens
        outcome.cached_tokens += job.cached_tokens


def _blocks_to_text(blocks: Sequence[int]) -> str:
    span = 0x110000 - _TEXT_OFFSET
    return "".join(chr(_TEXT_OFFSET + block % span) for block in blocks)
