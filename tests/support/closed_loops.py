"""Chats in a closed loop on modelled engines that stall: a client asks again once it has its answer."""

import random
from collections import deque
from dataclasses import dataclass
from heapq import merge
from math import inf
from operator import itemgetter
from statistics import mean

from radixway.core.config import QueueConfig, parse_policy
from radixway.routing import RoutingRequest, WorkerChoice, WorkerLease
from radixway.routing.simulator.engine_model import EngineConstants, EngineModel, SimulatedRequest
from radixway.routing.simulator.simulated_gateway import SimulatedGateway
from radixway.routing.worker_load import PrefillRate

BLOCK = 16


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """What is said, and by what engines it is answered."""

    constants: EngineConstants
    engines: int = 2
    kv_tokens: int = 14_592
    chats: int = 24
    turns: int = 5
    systems: int = 6
    system_tokens: int = 128
    asked_tokens: int = 160
    answered_tokens: int = 16
    at_once: int = 8
    stall_share: float = 0.0
    """Share of the steps in which an engine stalls."""
    stall_s: float = 0.0
    """Mean seconds of a stall."""


class StallingEngine(EngineModel):
    """An engine some of whose steps take longer, as where others use its processor."""

    def __init__(self, loop: ClosedLoop, draw: random.Random) -> None:
        self.pending: list[tuple[bool, tuple[int, ...]]] = []
        self._loop = loop
        self._draw = draw
        super().__init__(
            loop.constants,
            BLOCK,
            loop.kv_tokens,
            lambda stored, blocks: self.pending.append((stored, tuple(blocks))),
        )

    @property
    def step_end(self) -> float:
        return inf if self._step is None else self.now + self._step.seconds * self._step.times

    def _plan_step(self) -> None:
        super()._plan_step()
        if self._step is not None and self._step.times == 1 and self._draw.random() < self._loop.stall_share:
            self._step.seconds += self._draw.expovariate(1 / self._loop.stall_s)


@dataclass(slots=True, eq=False)
class _Chat:
    number: int
    tokens: int
    turns: int = 0


class ClosedLoopRun:
    """One run of a policy; `ttft_s` has every request's seconds to its first token."""

    def __init__(self, loop: ClosedLoop, policy: str, seed: int) -> None:
        self._loop = loop
        self._now = 0.0
        self._gateway = SimulatedGateway(parse_policy(policy), QueueConfig(), lambda: self._now, seed)
        self._engines = [
            StallingEngine(loop, random.Random(100 * seed + number)) for number in range(loop.engines)
        ]
        for _ in range(loop.engines):
            worker = self._gateway.add_worker(loop.kv_tokens)
            self._gateway.selector.index.set_followed(worker.slot, True)
        chats = [_Chat(number, loop.system_tokens) for number in range(loop.chats)]
        random.Random(seed).shuffle(chats)
        self._asking = deque(chats)
        self._open: dict[SimulatedRequest, _Chat] = {}
        """Requests that wait at the gateway or run."""
        self._leases: dict[SimulatedRequest, WorkerLease] = {}
        self.ttft_s: list[float] = []

    @property
    def fleet_rate(self) -> PrefillRate:
        """What has been learnt of the engines' speed."""
        return self._gateway.selector.ledger.rates.fleet

    def run(self) -> None:
        self._ask_again()
        while self._open:
            at = min(*(engine.step_end for engine in self._engines), self._gateway.wake_at) + 1e-9
            for when, job in merge(*(engine.run_until(at) for engine in self._engines), key=itemgetter(0)):
                self._now = when
                self._take_token(job)
            self._now = at
            self._tell_events()
            self._gateway.serve_queue(self._send)
            self._ask_again()

    def _take_token(self, job: SimulatedRequest) -> None:
        if not job.finished:
            self._leases[job].mark_prefill_done()
            return
        chat = self._open.pop(job)
        self._leases.pop(job).release()
        self.ttft_s.append(job.first_token - job.requested)
        chat.tokens += self._loop.answered_tokens
        chat.turns += 1
        if chat.turns < self._loop.turns:
            self._asking.append(chat)

    def _ask_again(self) -> None:
        while self._asking and len(self._open) < self._loop.at_once:
            self._tell_events()
            chat = self._asking.popleft()
            chat.tokens += self._loop.asked_tokens
            blocks = self._blocks_of(chat)
            request = RoutingRequest(
                tokens=chat.tokens,
                blocks=blocks,
                block_tokens=BLOCK,
                tokenized=True,
                session=str(chat.number),
                stream=True,
            )
            job = SimulatedRequest(blocks, chat.tokens, self._loop.answered_tokens, self._now, self._now)
            self._open[job] = chat
            self._gateway.route_request(request, job, self._send)

    def _send(self, job: SimulatedRequest, choice: WorkerChoice) -> None:
        self._leases[job] = self._gateway.selector.reserve(choice)
        self._engines[self._gateway.workers.index(choice.worker)].submit_request(job, self._now)

    def _blocks_of(self, chat: _Chat) -> tuple[int, ...]:
        shared = self._loop.system_tokens // BLOCK
        return tuple(
            1_000_000 * (chat.number % self._loop.systems) + at
            if at < shared
            else 1_000_000 * (1000 + chat.number) + at
            for at in range(chat.tokens // BLOCK)
        )

    def _tell_events(self) -> None:
        index = self._gateway.selector.index
        for engine, worker in zip(self._engines, self._gateway.workers, strict=True):
            for stored, blocks in engine.pending:
                (index.add_blocks if stored else index.remove_blocks)(worker.slot, blocks)
            engine.pending.clear()


def mean_ttft_s(loop: ClosedLoop, policy: str, seeds: int) -> float:
    """Mean seconds to the first token, over runs with `seeds` orders of the chats."""
    means = []
    for seed in range(seeds):
        run = ClosedLoopRun(loop, policy, seed)
        run.run()
        assert len(run.ttft_s) == loop.chats * loop.turns
        means.append(mean(run.ttft_s))
    return mean(means)
