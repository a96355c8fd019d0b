"""Replays a trace against modelled engines, with the gateway's own selector choosing among them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from radixway.config import AnyPolicy, RoutingSection, WorkerSection
from radixway.routing import Lease, RoutingRequest, Selector, Worker
from radixway.simulate.engine_model import EngineConstants, EngineModel, Job
from radixway.simulate.trace import Trace

_TEXT_OFFSET = 0xE000
"""Blocks become characters for policies by text: from here on none is a surrogate."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is simulated beside the trace and the policy."""

    workers: int = 8
    kv_tokens: int = 2_000_000
    """Tokens that each worker's cache holds."""
    speedup: float = 1.0
    """How much faster than in the trace the requests come."""
    events: bool = True
    """Whether workers publish KV events; without, the selector goes by what it sent where."""
    event_delay_s: float = 0.01
    """From a change of a cache to its event at the selector."""
    constants: EngineConstants = field(default_factory=EngineConstants)
    seed: int = 0


@dataclass(slots=True)
class Outcome:
    """What became of every request, in their order, and of every worker."""

    ttft_s: list[float] = field(default_factory=list)
    itl_s: list[float] = field(default_factory=list)
    """Mean seconds between the tokens of each answer of two tokens and more."""
    input_tokens: int = 0
    cached_tokens: int = 0
    expected_cached_tokens: int = 0
    """As the selector thought when it chose."""
    busy_s: list[float] = field(default_factory=list)
    """Per worker."""
    requests: list[int] = field(default_factory=list)
    """Per worker."""


class _Feed:
    """One worker's KV events on their way to the index."""

    def __init__(self) -> None:
        self.engine: EngineModel
        self.pending: deque[tuple[float, bool, Sequence[int]]] = deque()

    def stored(self, blocks: Sequence[int]) -> None:
        self.pending.append((self.engine.now, True, blocks))

    def removed(self, blocks: Sequence[int]) -> None:
        self.pending.append((self.engine.now, False, blocks))


class Simulation:
    """One policy over one trace. Deterministic: the same arguments give the same outcome."""

    def __init__(self, trace: Trace, policy: AnyPolicy, setting: Setting) -> None:
        self._trace = trace
        self._setting = setting
        self._now = 0.0
        self._selector = Selector(
            RoutingSection(policy=policy), clock=lambda: self._now, rng=random.Random(setting.seed)
        )
        self._workers: list[Worker] = []
        self._feeds: list[_Feed] = []
        capacity = setting.kv_tokens // trace.block_tokens
        for number in range(setting.workers):
            worker = Worker(WorkerSection(url=f"http://worker-{number}", kv_tokens=setting.kv_tokens))
            self._selector.enroll(worker)
            self._selector.index.follow(worker.slot, setting.events)
            self._selector.index.resize(worker.slot, int(0.9 * capacity))
            feed = _Feed()
            feed.engine = EngineModel(setting.constants, trace.block_tokens, setting.kv_tokens, feed)
            self._workers.append(worker)
            self._feeds.append(feed)
        self._leases: dict[int, Lease] = {}
        self._outcome = Outcome()

    def run(self, progress: Callable[[int], None] = lambda done: None) -> Outcome:
        """Replay the whole trace. `progress` is called now and then with the requests sent so far."""
        reads_text = self._selector.policy(None).reads_text
        for number, asked in enumerate(self._trace.requests):
            now = asked.at / self._setting.speedup
            self._work_until(now)
            self._now = now
            self._hear(now)
            request = RoutingRequest(
                tokens=asked.input_tokens,
                blocks=asked.blocks,
                block_tokens=self._trace.block_tokens,
                tokenized=True,
                text=_as_text(asked.blocks) if reads_text else "",
                stream=True,
            )
            choice = self._selector.pick(request, self._workers)
            job = Job(asked.blocks, asked.input_tokens, asked.output_tokens, now)
            self._leases[id(job)] = self._selector.reserve(choice)
            self._feeds[self._workers.index(choice.worker)].engine.submit(job, now)
            self._outcome.expected_cached_tokens += choice.cached_tokens
            if number % 256 == 0:
                progress(number)
        self._work_until(float("inf"))
        self._outcome.busy_s = [feed.engine.busy_s for feed in self._feeds]
        self._outcome.requests = [worker.load.total for worker in self._workers]
        return self._outcome

    def _work_until(self, now: float) -> None:
        for feed in self._feeds:
            for when, job in feed.engine.run_until(now):
                self._now = when
                if job.finished:
                    self._leases.pop(id(job)).release()
                    self._note(job)
                else:
                    self._leases[id(job)].prefill_done()

    def _hear(self, now: float) -> None:
        """The events of the workers that have arrived by `now`."""
        if not self._setting.events:
            return
        until, index = now - self._setting.event_delay_s, self._selector.index
        for worker, feed in zip(self._workers, self._feeds, strict=True):
            pending = feed.pending
            while pending and pending[0][0] <= until:
                _, stored, blocks = pending.popleft()
                (index.stored if stored else index.removed)(worker.slot, blocks)

    def _note(self, job: Job) -> None:
        outcome = self._outcome
        outcome.ttft_s.append(job.first_token - job.arrived)
        if job.output_tokens > 1:
            outcome.itl_s.append((job.finished - job.first_token) / (job.output_tokens - 1))
        outcome.input_tokens += job.input_tokens
        outcome.cached_tokens += job.cached_tokens


def _as_text(blocks: Sequence[int]) -> str:
    return "".join(map(chr, _characters(blocks)))


def _characters(blocks: Sequence[int]) -> Iterator[int]:
    span = 0x110000 - _TEXT_OFFSET
    return (_TEXT_OFFSET + block % span for block in blocks)
