"""Chats in a closed loop over modelled engines that stall, in simulated time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import fmean

from radixway.core.config import parse_policy
from radixway.routing import RoutingRequest, WorkerLease
from radixway.routing.simulator.engine_model import EngineConstants, EngineModel, SimulatedRequest
from radixway.routing.simulator.simulation import SimulatedGateway

BLOCK = 16

ON_A_CORE = EngineConstants(
    step_s=0.012, prefill_s=0.00064, decode_s=0.001, context_s=0, step_tokens=256, max_running=8
)
"""A model of 40 M parameters on one core, where a step of prefill takes as long as a stall."""


class StallingEngine(EngineModel):
    """An engine of which one step in some takes longer, as on a machine that other work shares."""

    def __init__(self, chats: ChatShape, kv_tokens: int, draw: random.Random) -> None:
        super().__init__(chats.constants, BLOCK, kv_tokens, lambda stored, blocks: None)
        self._draw = draw
        self._stalls_every = chats.stalls_every
        self._stall_s = chats.stall_s

    @property
    def next_at(self) -> float | None:
        """When the step under way, or the run of equal ones, ends; None while there is nothing to do."""
        return None if self._step is None else self.now + self._step.seconds * self._step.times

    def _plan_step(self) -> None:
        super()._plan_step()
        if self._step is not None and self._draw.random() * self._stalls_every < self._step.times:
            self._step.seconds += self._draw.expovariate(1 / self._stall_s) / self._step.times


@dataclass(frozen=True, slots=True)
class ChatShape:
    """How much is said, by how many at once, to how many engines."""

    chats: int = 24
    turns: int = 5
    systems: int = 6
    system_blocks: int = 8
    asked_blocks: int = 10
    answered: int = 16
    at_once: int = 8
    engines: int = 2
    kv_share: float = 0.5
    """What the cache of each engine holds, of all that is said."""
    constants: EngineConstants = ON_A_CORE
    stalls_every: float = 25
    """Steps, on average, from one stall to the next."""
    stall_s: float = 0.25
    """Mean seconds of a stall, which are drawn from an exponential distribution."""


@dataclass(slots=True)
class LoopOutcome:
    """What came of it."""

    ttft_s: list[float]
    input_tokens: int
    cached_tokens: int
    gateway: SimulatedGateway

    @property
    def ttft_mean_s(self) -> float:
        return fmean(self.ttft_s)

    @property
    def hit_rate(self) -> float:
        return self.cached_tokens / self.input_tokens


class ClosedLoop:
    """A gateway with `policy` in front of engines that serve chats of `shape`, each turn after the last."""

    def __init__(self, policy: str, shape: ChatShape, seed: int = 0) -> None:
        self._draw, self._shape, self.now = random.Random(seed), shape, 0.0
        said = shape.systems * shape.system_blocks + shape.chats * shape.turns * (shape.asked_blocks + 1)
        longest = shape.system_blocks + shape.turns * (shape.asked_blocks + 1)
        kv_tokens = int(said * shape.kv_share + shape.at_once / shape.engines * longest) * BLOCK
        self._gateway = SimulatedGateway(
            parse_policy(policy), shape.engines, kv_tokens, lambda: self.now, seed
        )
        self.engines = [
            StallingEngine(shape, kv_tokens, random.Random(1000 * seed + number))
            for number in range(shape.engines)
        ]
        self._waiting = list(range(shape.chats))
        self._draw.shuffle(self._waiting)
        self._prompts: dict[int, tuple[int, ...]] = {}
        self._turns = [0] * shape.chats
        self._running: dict[int, tuple[int, WorkerLease]] = {}
        self._outcome = LoopOutcome([], 0, 0, self._gateway)

    def run(self) -> LoopOutcome:
        """Say everything."""
        for _ in range(self._shape.at_once):
            self._send_next()
        while due := [at for engine in self.engines if (at := engine.next_at) is not None]:
            for engine in self.engines:
                for self.now, job in engine.run_until(min(due)):
                    self._on_token(job)
        return self._outcome

    def _send_next(self) -> None:
        if not self._waiting:
            return
        shape, chat = self._shape, self._waiting.pop(0)
        first = tuple(range(-1 - chat % shape.systems, -1 - 10_000 * shape.system_blocks, -10_000))
        before = self._prompts.get(chat, first[: shape.system_blocks])
        start = 100_000 * (chat + 1) + len(before)
        blocks = self._prompts[chat] = before + tuple(range(start, start + shape.asked_blocks))
        tokens = len(blocks) * BLOCK + 5
        request = RoutingRequest(
            tokens=tokens, blocks=blocks, block_tokens=BLOCK, tokenized=True, session=str(chat), stream=True
        )
        selector, workers = self._gateway.selector, self._gateway.workers
        choice = selector.select_worker(request, workers)
        job = SimulatedRequest(blocks, tokens, shape.answered, self.now)
        self._running[id(job)] = chat, selector.reserve(choice)
        self.engines[workers.index(choice.worker)].submit_request(job, self.now)

    def _on_token(self, job: SimulatedRequest) -> None:
        chat, lease = self._running[id(job)]
        if not job.finished:
            lease.mark_prefill_done()
            return
        lease.release()
        del self._running[id(job)]
        outcome = self._outcome
        outcome.ttft_s.append(job.first_token - job.arrived)
        outcome.input_tokens += job.input_tokens
        outcome.cached_tokens += job.cached_tokens
        self._turns[chat] += 1
        if self._turns[chat] < self._shape.turns:  # who asks again stands behind those who wait
            self._waiting.append(chat)
        self._send_next()
