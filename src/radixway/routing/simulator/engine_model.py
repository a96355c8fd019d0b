"""The simulator's model of an engine: continuous batching with chunked prefill over a block cache.

An engine works in steps. Each step decodes one token for every running request and prefills up to
`step_tokens` tokens less those, of the requests in the order in which they came. It takes

    step_s + prefilled tokens · prefill_s + decoding requests · decode_s + their context tokens · context_s
           + pairs of a prefilled token and one before it · attention_s

seconds. A request's prefix that the cache holds when its prefill begins is not computed; the last token of a
prompt always is. Blocks are held from when they are computed until they are the least recently used ones that
no running request needs. A request waits until the cache has room for its prompt, and those behind it wait
too. Answers take room as they grow. When there is none left the request that came last is preempted: it gives
up its blocks and is the next to be admitted, prefilling its prompt and what it had answered.

Left out: what the answers leave in the cache (traces name the blocks of prompts alone), and the growth of the
context within a run of steps that only decode and into which no request comes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from heapq import heapify, heappop, heappush
from math import inf
from operator import itemgetter
from typing import Any

from radixway.routing.simulator.block_cache import BlockCache, OnBlocksChanged


@dataclass(frozen=True, slots=True)
class EngineConstants:
    """Constants of an engine. The defaults stand for a model of some 8 B parameters on one data-centre
    GPU."""

    step_s: float = 0.008
    """Seconds of an empty step."""
    prefill_s: float = 1 / 12_000
    """Seconds per prefilled token."""
    decode_s: float = 0.000_2
    """Seconds per decoding request."""
    context_s: float = 0.000_000_02
    """Seconds per token that a decoding request attends to."""
    attention_s: float = 0.0
    """Seconds per prefilled token and prompt token before it, cached or not."""
    step_tokens: int = 2048
    """Tokens computed in a step at most."""
    max_running: int = 256
    """Requests in prefill or decode at most."""

    def __post_init__(self) -> None:
        """Raises ValueError for impossible constants."""
        for constant in fields(self):
            value = getattr(self, constant.name)
            minimum = 1 if constant.name in ("step_tokens", "max_running") else 0
            if not minimum <= value < inf:
                raise ValueError(f"{constant.name} must be at least {minimum}, not {value}")
        if not self.step_s + self.prefill_s + self.decode_s:
            raise ValueError("an engine whose steps take no time cannot be simulated")

    @classmethod
    def parse_constants(cls, text: str) -> EngineConstants:
        """Parse `step_s=0.01,prefill_s=0.0001`; missing names keep their default. Raises ValueError."""
        given: dict[str, Any] = {}
        kinds = {"step_tokens": int, "max_running": int}
        known = [field.name for field in fields(cls)]
        for part in text.split(","):
            name, _, value = (piece.strip() for piece in part.partition("="))
            if name not in known or name in given:
                raise ValueError(
                    f"an engine is written as NAME=VALUE,… with names of {', '.join(known)}, each once, "
                    f"not {text!r}"
                )
            try:
                given[name] = kinds.get(name, float)(value)
            except ValueError:
                raise ValueError(f"{name} must be a number, not {value!r}") from None
        return cls(**given)


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """A request at an engine."""

    blocks: Sequence[int]
    input_tokens: int
    output_tokens: int
    arrived: float
    """When it came to the engine."""
    requested: float = 0.0
    """When it came to the gateway."""
    session: int | None = None
    cached_tokens: int = 0
    left_to_prefill: int = 0
    filled: int = 0
    generated: int = 0
    """Tokens that it had when it was last preempted; they are prefilled again."""
    decoding_since: int = 0
    """Number of the engine's step that gave the first token since."""
    first_token: float = 0.0
    finished: float = 0.0


@dataclass(slots=True)
class _EngineStep:
    """What the engine is doing: `times` equal steps, each of `seconds`, each prefilling `prefill` tokens."""

    seconds: float
    times: int
    prefill: int


class EngineModel:
    """Simulates an engine. Call `run_until` with times that never go back, then maybe `submit`."""

    def __init__(
        self, constants: EngineConstants, block_tokens: int, kv_tokens: int, on_change: OnBlocksChanged
    ) -> None:
        self._constants = constants
        self._block_tokens = block_tokens
        self._capacity = kv_tokens // block_tokens
        self.cache = BlockCache(self._capacity, on_change)
        self.now = 0.0
        """Start of the present step."""
        self.busy_s = 0.0
        """Seconds in steps: the time with any work, however much."""
        self.work_s = 0.0
        """Part of `busy_s` for tokens prefilled, requests decoding and their context."""
        self.prefilled_tokens = 0
        self._waiting: deque[SimulatedRequest] = deque()
        self._prefilling: deque[SimulatedRequest] = deque()
        self._decoding: list[tuple[int, int, SimulatedRequest]] = []
        """Heap by the step of the last token."""
        self._growing = [0] * block_tokens
        """How many of those begin another block in a step, by its number modulo the tokens of a block."""
        self.preemptions = 0
        """Requests that lost their place to the answers of earlier ones, and began anew."""
        self._context = 0
        """Context tokens of all decoding requests."""
        self._steps = 0
        self._order = 0
        self._step: _EngineStep | None = None

    @property
    def running(self) -> int:
        """Requests submitted and not yet finished."""
        return len(self._waiting) + len(self._prefilling) + len(self._decoding)

    @property
    def next_event_at(self) -> float:
        """When the present steps end, as far as nothing is submitted before; infinity if it rests."""
        step = self._step
        return inf if step is None else self.now + step.seconds * step.times

    def fits_request(self, input_tokens: int, output_tokens: int) -> bool:
        """Return True if an empty cache has room for `input_tokens` and `output_tokens`."""
        return -(-(input_tokens + output_tokens) // self._block_tokens) <= self._capacity

    def submit_request(self, job: SimulatedRequest, now: float) -> None:
        """Submit `job`, which takes part from the next step on. Call `run_until(now)` before.

        Raises ValueError for one that does not fit (see `fits`).
        """
        if not self.fits_request(job.input_tokens, job.output_tokens):
            raise ValueError(f"a request does not fit into a cache of {self._capacity} blocks")
        job.arrived = now
        self._waiting.append(job)
        if self._step is None:
            self.now = now
            self._plan_step()
        elif self._step.times > 1:
            full_steps = min(int((now - self.now) / self._step.seconds), self._step.times - 1)
            if full_steps:
                self._advance_steps(self._step, full_steps)
            self._step.times = 1

    def run_until(self, now: float) -> Iterator[tuple[float, SimulatedRequest]]:
        """Work until `now`: when which request got its first token, and when which was finished.

        A job whose `finished` is not set yet got its first token. The step under way at `now` goes on.
        """
        while (step := self._step) is not None and self.next_event_at <= now:
            self._advance_steps(step, step.times)
            if step.prefill:
                yield from self._prefill_tokens(step.prefill)
            while self._decoding and self._decoding[0][0] <= self._steps:
                yield self.now, self._finish_request()
            self._plan_step()

    def check(self) -> None:
        """Recompute every count. Raises AssertionError with the difference."""
        decoding = [job for _, _, job in self._decoding]
        for job in self._prefilling:
            assert job.left_to_prefill > 0, "a request whose prefill is over is still in prefill"
        self.cache.check(
            (job.blocks[: job.filled], self._held_blocks(job) - job.filled)
            for job in (*self._prefilling, *decoding)
        )
        context = sum(job.input_tokens + self._answered_tokens(job) - 1 for job in decoding)
        assert context == self._context, "the context is not that of the decoding requests"
        growing = Counter(self._growth_phase(job) for job in decoding)
        assert all(growing[phase] == many for phase, many in enumerate(self._growing)), "others begin blocks"
        admitted = len(self._prefilling) + len(decoding)
        assert admitted <= self._constants.max_running, "more requests run than may"
        assert (self._step is None) == (not self.running), "it rests though there is work"

    def _plan_step(self) -> None:
        growth = self._growing[self._steps % self._block_tokens]
        preempted = False
        while growth > self.cache.available:
            self._preempt_request()
            growth, preempted = self._growing[self._steps % self._block_tokens], True
        while (
            self._waiting
            and not preempted
            and len(self._prefilling) + len(self._decoding) < self._constants.max_running
        ):
            if not self._admit_request(self._waiting[0], growth):
                break
            self._prefilling.append(self._waiting.popleft())
        constants, decoding = self._constants, len(self._decoding)
        seconds = constants.step_s + constants.decode_s * decoding + constants.context_s * self._context
        if self._prefilling:
            left = sum(job.left_to_prefill for job in self._prefilling)
            prefill = max(1, min(left, constants.step_tokens - decoding))
            seconds += constants.prefill_s * prefill
            if constants.attention_s:
                seconds += constants.attention_s * self._attention_pairs(prefill)
            self._step = _EngineStep(seconds, 1, prefill)
        elif decoding:
            self._step = _EngineStep(seconds, self._steps_with_room(self._decoding[0][0] - self._steps), 0)
        else:
            self._step = None

    def _steps_with_room(self, most: int) -> int:
        """Return for how many of the next `most` steps, at least one, the cache has room for the answers."""
        available, size = self.cache.available, self._block_tokens
        if len(self._decoding) * (most // size + 1) <= available:
            return most
        for steps in range(most):
            available -= self._growing[(self._steps + steps) % size]
            if available < 0:
                return max(1, steps)
        return most

    def _preempt_request(self) -> None:
        """Take the place of the request that came last; it is the next to be admitted."""
        self.preemptions += 1
        if self._prefilling:
            job = self._prefilling.pop()
        else:
            entry = max(self._decoding, key=itemgetter(1))
            job = entry[2]
            self._decoding.remove(entry)
            heapify(self._decoding)
            self._growing[self._growth_phase(job)] -= 1
            self._context -= job.input_tokens + self._answered_tokens(job) - 1
        self.cache.free_blocks(job.blocks[: job.filled], self._held_blocks(job) - job.filled)
        job.generated, job.decoding_since = self._answered_tokens(job), 0
        self._waiting.appendleft(job)

    def _answered_tokens(self, job: SimulatedRequest) -> int:
        """Return how many tokens of its answer it has."""
        return job.generated + (self._steps - job.decoding_since + 1 if job.decoding_since else 0)

    def _held_blocks(self, job: SimulatedRequest) -> int:
        """Return the blocks of a job in prefill or decoding: of what it has and of the next token."""
        tokens = self._answered_tokens(job) if job.decoding_since else job.generated + 1
        return -(-(job.input_tokens + tokens) // self._block_tokens)

    def _growth_phase(self, job: SimulatedRequest) -> int:
        return (job.decoding_since - job.input_tokens - job.generated - 1) % self._block_tokens

    def _attention_pairs(self, tokens: int) -> int:
        """Count pairs of each of the next `tokens` with those before it."""
        pairs = 0
        for job in self._prefilling:
            taken = min(tokens, job.left_to_prefill)
            pairs += taken * (job.input_tokens - job.left_to_prefill) + taken * (taken - 1) // 2
            tokens -= taken
        return pairs

    def _admit_request(self, job: SimulatedRequest, spare: int) -> bool:
        depth = self.cache.match_prefix(job.blocks)
        if not self.cache.allocate_blocks(job.blocks, depth, self._held_blocks(job) - len(job.blocks), spare):
            return False
        job.filled = depth
        cached_tokens = min(depth * self._block_tokens, job.input_tokens - 1)
        job.left_to_prefill = job.input_tokens + job.generated - cached_tokens
        if not job.generated:
            job.cached_tokens = cached_tokens
        return True

    def _advance_steps(self, step: _EngineStep, times: int) -> None:
        self.now += step.seconds * times
        self.busy_s += step.seconds * times
        self.work_s += (step.seconds - self._constants.step_s) * times
        for step_number in range(self._steps, self._steps + times % self._block_tokens):
            self.cache.reserve_blocks(self._growing[step_number % self._block_tokens])
        self.cache.reserve_blocks(len(self._decoding) * (times // self._block_tokens))
        self._steps += times
        self._context += len(self._decoding) * times
        step.times -= times

    def _prefill_tokens(self, tokens: int) -> Iterator[tuple[float, SimulatedRequest]]:
        """Give the step's tokens to requests in order; complete ones get a first token."""
        self.prefilled_tokens += tokens
        while tokens and self._prefilling:
            job = self._prefilling[0]
            taken = min(tokens, job.left_to_prefill)
            tokens -= taken
            job.left_to_prefill -= taken
            total = job.input_tokens + job.generated
            computed = min((total - job.left_to_prefill) // self._block_tokens, len(job.blocks))
            if computed > job.filled:
                self.cache.insert_blocks(job.blocks[job.filled : computed])
                job.filled = computed
            if job.left_to_prefill:
                break
            self._prefilling.popleft()
            if not job.generated:
                job.first_token = self.now
                yield self.now, job
            self._order += 1
            job.decoding_since = self._steps
            heappush(self._decoding, (self._steps + job.output_tokens - job.generated - 1, self._order, job))
            self._growing[self._growth_phase(job)] += 1
            self._context += total

    def _finish_request(self) -> SimulatedRequest:
        job = heappop(self._decoding)[2]
        job.finished = self.now
        self._growing[self._growth_phase(job)] -= 1
        self._context -= job.input_tokens + job.output_tokens - 1
        self.cache.free_blocks(job.blocks, self._held_blocks(job) - len(job.blocks))
        return job
