"""Load and prefill rate of a worker: the numbers that policies read.

Estimates of the same speed differ by noise, and a policy that goes by it starves a worker: the one that looks
slow gets no requests, so its estimate is never corrected. A worker's own rate is therefore believed only if
its prefills differ from what the fleet's rate says by more than chance explains:

    |ln slowness| > max(ln 1.1, 3 · noise / √observations)

The slowness is the time that its prefills took over the time they would take at the fleet's present rate; the
noise is how far single prefills lie from their own worker's rate. All other workers share the fleet's rate,
so their equal costs are equal, and the selector takes turns. What a worker showed fades as the others show
more, so one that looked slow is tried again: the later, the slower it looked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import NamedTuple

_FORGET = 0.98
"""Decay of the prefill-rate estimate per observation."""
_SECONDS_PER_TOKEN = 1 / 8000
_OVERHEAD_S = 0.02
STEP_S = 0.15
"""How much later than reckoned a first token may come: engines tell them at the ends of steps, and nothing
tells how far a step is. Found by simulation; from 0.1 to 0.2 is about as good (decision 0022)."""


class PrefillRate:
    """Prefill time as `overhead_s + tokens × seconds_per_token`, by least squares over those seen.

    Older observations fade. It begins with a guess that the first observation outweighs.
    """

    __slots__ = (
        "_sum_t",
        "_sum_tt",
        "_sum_tx",
        "_sum_x",
        "count",
        "guess",
        "observed",
        "overhead_s",
        "seconds_per_token",
    )

    def __init__(self) -> None:
        self.overhead_s = _OVERHEAD_S
        self.seconds_per_token = _SECONDS_PER_TOKEN
        self.observed = 0
        self.count = 0.0
        """Observations, each counted for as much as has not faded of it."""
        self.guess = 0.2
        """Weight of the initial guess, in prefills of no tokens, and of a thousand."""
        self._sum_t = self._sum_tt = self._sum_x = self._sum_tx = 0.0

    def prefill_s(self, tokens: int) -> float:
        """Seconds for a prefill of so many tokens; the last one of a prompt always needs one."""
        return self.overhead_s + max(1, tokens) * self.seconds_per_token

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        """A prefill of so many tokens took so long, once it had the worker."""
        self.observed += 1
        self.decay()
        self.count += 1
        self._sum_t += tokens
        self._sum_tt += tokens * tokens
        self._sum_x += seconds
        self._sum_tx += tokens * seconds
        self._fit_line()

    def decay(self) -> None:
        """Count what was seen for less, as with each observation. What is believed stays the same."""
        self.count *= _FORGET
        self.guess *= _FORGET
        self._sum_t *= _FORGET
        self._sum_tt *= _FORGET
        self._sum_x *= _FORGET
        self._sum_tx *= _FORGET

    def relative_slowness(self, other: PrefillRate) -> float:
        """Return the time of the prefills seen over their time at `other`'s rate; 1 if none were seen."""
        expected_s = self.count * other.overhead_s + self._sum_t * other.seconds_per_token
        return self._sum_x / expected_s if expected_s > 0 else 1.0

    def _fit_line(self) -> None:
        guess = self.guess
        count = self.count + 2 * guess
        sum_t = self._sum_t + guess * 1000
        sum_tt = self._sum_tt + guess * 1000**2
        sum_x = self._sum_x + guess * (2 * _OVERHEAD_S + 1000 * _SECONDS_PER_TOKEN)
        sum_tx = self._sum_tx + guess * 1000 * (_OVERHEAD_S + 1000 * _SECONDS_PER_TOKEN)
        spread = count * sum_tt - sum_t**2
        slope = (count * sum_tx - sum_t * sum_x) / spread if spread > 0 else 0.0
        overhead_s = (sum_x - slope * sum_t) / count
        if slope > 0 and overhead_s >= 0:
            self.seconds_per_token, self.overhead_s = slope, overhead_s
        elif sum_t > 0:  # too little variety to tell them apart
            self.seconds_per_token, self.overhead_s = sum_x / sum_t, 0.0


class LoadShare(NamedTuple):
    """Load of one gateway, or several together, at a worker; numbers as in `WorkerLoad`."""

    total: int = 0
    requests: int = 0
    prefilling: int = 0
    silent: int = 0
    prefill_tokens: int = 0
    sent_tokens: int = 0
    blocks: int = 0

    @property
    def prefilled(self) -> int:
        """Requests ever sent whose prefill is over."""
        return self.total - self.prefilling

    @classmethod
    def sum_shares(cls, shares: Iterable[LoadShare]) -> LoadShare:
        """Sum the shares of several gateways."""
        return cls(*map(sum, zip(*shares, strict=True)))


NOTHING = LoadShare()


@dataclass(slots=True, eq=False)
class WorkerLoad:
    """Requests in flight at a worker, from before the connect to the last byte.

    Counts are this gateway's and changed by leases alone. What other gateways report as in flight
    there stands in `elsewhere`; policies look at both.
    """

    requests: int = 0
    streams: int = 0
    total: int = 0
    prefilling: int = 0
    """Requests whose first token has not come yet."""
    prefill_tokens: int = 0
    """Tokens that those had to prefill when they were sent."""
    due_tokens: list[int] = field(default_factory=list)
    """The same of each whose first token is due, the oldest first: of all but the silent ones."""
    sent_tokens: int = 0
    active_blocks: dict[int, int] = field(default_factory=dict)
    """Prompt blocks in flight, with the number of requests that use each."""
    output_blocks: int = 0
    prompt_tokens: int = 0
    """Tokens of the prompts in flight, what they share counted for each."""
    uncounted_tokens: int = 0
    """Those of prompts whose blocks do not stand in `active_blocks`."""
    room_tokens: float = inf
    """Tokens in its KV cache beyond which requests are expected to wait for room, or to be preempted."""
    answer_s: float = 0.0
    """Mean seconds from a first token to the end of its answer, those seen last counting more."""
    own_rate: PrefillRate = field(default_factory=PrefillRate)
    observed_at: int = 0
    """How many first tokens all workers had given when this one gave its last."""
    rate: PrefillRate = field(init=False)
    """What is believed: the fleet's, unless its own is clearly another (see above)."""
    drained_at: float = 0.0
    """When it will have prefilled all that it was sent, by our reckoning. First tokens tell only when a
    prefill has ended, and whole replies not even that: in between it is taken to work at its rate. All
    gateways' prefills stand in this one queue. Changed by `update_queue` alone, as are the next two."""
    due_s: float = 0.0
    """Seconds for all prefills whose first tokens are due. What is reckoned to be done of them may not be."""
    min_queue_s: float = 0.0
    """Seconds for those behind the oldest. The countdown says less of a worker that is slower than its rate,
    that stalls, or whose slots are taken; none of those looks free."""
    busy_since: float | None = None
    """Estimated start of the present prefill, or None."""
    elsewhere: LoadShare = NOTHING
    """Load of other gateways; changed by `LoadLedger.set_remote_load` alone."""

    @property
    def silent(self) -> int:
        """Return the requests in prefill whose replies are whole and have no first token."""
        return self.prefilling - len(self.due_tokens)

    @property
    def all_requests(self) -> int:
        """Return requests in flight here and elsewhere."""
        return self.requests + self.elsewhere.requests

    @property
    def all_prefill_tokens(self) -> int:
        """Return prefill tokens in flight here and elsewhere."""
        return self.prefill_tokens + self.elsewhere.prefill_tokens

    @property
    def all_blocks(self) -> int:
        """Return blocks in use here and elsewhere; shared ones are counted once by each."""
        return self.blocks + self.elsewhere.blocks

    @property
    def blocks(self) -> int:
        """Return the blocks in use by the requests in flight, a shared one counted once."""
        return len(self.active_blocks) + self.output_blocks

    def __post_init__(self) -> None:
        self.rate = self.own_rate

    def shared_blocks(self, blocks: Sequence[int]) -> int:
        """Count those of `blocks` that requests in flight have in use, which are always a prefix."""
        active, low, high = self.active_blocks, 0, len(blocks)
        while low < high:
            middle = (low + high) // 2
            if blocks[middle] in active:
                low = middle + 1
            else:
                high = middle
        return low

    def room_s(self, tokens: int, blocks: Sequence[int], block_tokens: int) -> float:
        """Seconds until a prompt of `tokens` in `blocks` has room in the KV cache, which answers free."""
        used = self.uncounted_tokens + self.blocks * block_tokens
        short = used + tokens - self.shared_blocks(blocks) * block_tokens - self.room_tokens
        return self.answer_s * short / used if short > 0 and used > 0 else 0.0

    def observe_answer(self, seconds: float) -> None:
        """An answer ended so long after its first token."""
        self.answer_s += (1 - _FORGET) * (seconds - self.answer_s) if self.answer_s else seconds

    def queue_s(self, now: float) -> float:
        """Seconds until a prefill that comes now would begin.

        The countdown, or more where first tokens are late, and up to `STEP_S` more while any are due.
        `ExpectedTime.score` has the same lines, because it asks for every candidate.
        """
        queue_s = max(self.drained_at - now, self.min_queue_s)
        return min(self.due_s, queue_s + STEP_S) if self.due_s > queue_s else queue_s

    def countdown_s(self, now: float) -> float:
        """Seconds until all prefills are over if the worker keeps to its rate."""
        return max(0.0, self.drained_at - now)

    def update_queue(self, now: float, countdown_s: float) -> None:
        """Set the countdown to `countdown_s`, or less where all prefills in flight take less.

        Call it after each change of their number, here or elsewhere.
        """
        due_tokens = self.due_tokens
        prefilling, visible, tokens = self.prefilling, len(due_tokens), self.prefill_tokens
        if (elsewhere := self.elsewhere) is not NOTHING:
            prefilling += elsewhere.prefilling
            visible += elsewhere.prefilling - elsewhere.silent
            tokens += elsewhere.prefill_tokens
        if not prefilling:
            self.drained_at, self.due_s, self.min_queue_s = now, 0.0, 0.0
            return
        rate = self.rate
        overhead_s, per_token_s = rate.overhead_s, rate.seconds_per_token
        pending_s = prefilling * overhead_s + tokens * per_token_s
        self.drained_at = now + (countdown_s if countdown_s < pending_s else pending_s)
        self.due_s = due_s = visible * pending_s / prefilling
        oldest_s = overhead_s + due_tokens[0] * per_token_s if due_tokens else pending_s / prefilling
        self.min_queue_s = due_s - oldest_s if due_s > oldest_s else 0.0

    def decoding(self, now: float) -> int:
        """Requests that are past their prefill, here and elsewhere, as far as can be known.

        One that has a first token is not before that has come; a whole reply is when the countdown is over.
        """
        if self.drained_at <= now:
            return self.all_requests - self.visible_prefills()
        return self.all_requests - self.prefilling - self.elsewhere.prefilling

    def visible_prefills(self) -> int:
        """Requests in prefill whose first tokens will be seen, here or elsewhere."""
        others = self.elsewhere
        return len(self.due_tokens) + others.prefilling - others.silent

    def to_share(self) -> LoadShare:
        """Return this gateway's own load there, to be sent to others."""
        return LoadShare(
            self.total,
            self.requests,
            self.prefilling,
            self.silent,
            self.prefill_tokens,
            self.sent_tokens,
            self.blocks,
        )


_COLD_PREFILLS = 5
"""First prefills of a worker, which teach the fleet's rate alone: they often meet a cold worker."""
_MIN_OBSERVATIONS = 8
"""Prefills of a worker, those included, before its rate is used."""
_MIN_LOG_RATIO = log(1.1)
"""A smaller difference is not worth an idle worker."""
_STANDARD_ERRORS = 3
_MIN_RELATIVE_NOISE = 0.1
"""Relative to the rate; without it a noiseless worker would never be tried again."""
_MAX_DEVIATION = 10.0
"""Cap of one prefill's deviation, so that one pause does not hide all differences."""
_NOISE_FORGET = 0.98
"""Decay of the noise estimate per prefill."""


class PrefillRateRegistry:
    """The fleet's rate, and which worker has one of its own. Belongs to the ledger."""

    def __init__(self) -> None:
        self.fleet = PrefillRate()
        self._variance = 1.0
        """Variance of prefill times relative to the worker's rate."""
        self._loads: deque[WorkerLoad] = deque()
        """Workers to review in turn, since observations age."""

    def add_load(self, load: WorkerLoad) -> None:
        """A worker has come, of which nothing is known."""
        load.rate = self.fleet
        load.observed_at = self.fleet.observed
        self._loads.append(load)

    def remove_load(self, load: WorkerLoad) -> None:
        """A worker has gone. Raises ValueError for one that was not added."""
        self._loads.remove(load)

    def observe_prefill(self, load: WorkerLoad, tokens: int, seconds: float) -> None:
        """A prefill of so many tokens took so long at the worker with this load."""
        own = load.own_rate
        if own.observed > _COLD_PREFILLS:
            deviation = min(seconds / own.prefill_s(tokens) - 1, _MAX_DEVIATION)
            self._variance += (1 - _NOISE_FORGET) * (deviation**2 - self._variance)
        self.fleet.observe_prefill(tokens, seconds)
        if own.observed < _COLD_PREFILLS:
            own.observed += 1
        else:
            own.observe_prefill(tokens, seconds)
        load.observed_at = self.fleet.observed
        self._assign_rate(load)
        self._review_next()

    def _review_next(self) -> None:
        """Review one worker, in turn: its observations count less if others have newer ones."""
        if not self._loads:
            return
        load = self._loads[0]
        self._loads.rotate(-1)
        if self.fleet.observed - load.observed_at >= len(self._loads):
            load.own_rate.decay()
            self._assign_rate(load)

    def _assign_rate(self, load: WorkerLoad) -> None:
        load.rate = load.own_rate if self._is_different(load.own_rate) else self.fleet

    def _is_different(self, own: PrefillRate) -> bool:
        if own.observed < _MIN_OBSERVATIONS:
            return False
        slowness = own.relative_slowness(self.fleet)
        if slowness <= 0:
            return False
        noise = sqrt(max(self._variance, _MIN_RELATIVE_NOISE**2))
        # Multiplied by the root, because what is observed of a worker may have faded to nothing.
        difference, root = abs(log(slowness)), sqrt(own.count)
        return difference > _MIN_LOG_RATIO and difference * root > _STANDARD_ERRORS * noise
