"""A tenant's account: its running requests and usage, and whether one more request may come in."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil, inf
from typing import Any, Protocol

import msgspec

from radixway.core.config import QuotasConfig, RatesConfig
from radixway.core.config.tenants import format_cost
from radixway.core.pipeline import LimitReachedError


class SlidingWindow:
    """A sum over the last minute, in slots of a second: memory is bounded.

    What is counted leaves the sum after 60 to 61 seconds. Times are seconds of any clock; one that goes back
    counts into the latest slot.
    """

    def __init__(self) -> None:
        self.total = 0
        """The amount within the window, as of the last look at it."""
        self._slots = [0] * 61
        self._in_slots = 0
        """What of the total stands in slots: that of the current second comes there when it is over."""
        self._at = 0

    def add_amount(self, now: float, amount: int) -> None:
        """Count `amount` now."""
        if now >= self._at + 1:
            self.advance(now)
        self.total += amount

    def current_total(self, now: float) -> int:
        """Return the amount within the window that ends at `now`."""
        if now >= self._at + 1:
            self.advance(now)
        return self.total

    def frees_in_s(self, now: float, amount: int) -> int:
        """Whole seconds until `amount` of what it holds has left, if nothing is added; all of it at most."""
        self.advance(now)
        self._fill_slot()
        size, left = len(self._slots), min(amount, self.total)
        for age in range(size - 1, -1, -1):
            left -= self._slots[(self._at - age) % size]
            if left <= 0:
                return max(size - age, 1)
        return size

    def check(self) -> None:
        """Raises AssertionError where the sum is not that of the slots."""
        assert self._in_slots == sum(self._slots), (self._in_slots, self._slots)
        assert self.total >= self._in_slots, (self.total, self._in_slots)

    def advance(self, now: float) -> None:
        """Let go what has left by `now`. Until the next whole second `total` may then be added to."""
        at = int(now)
        if at <= self._at:
            return
        self._fill_slot()
        for second in range(self._at + 1, min(at, self._at + len(self._slots)) + 1):
            slot = second % len(self._slots)
            self.total -= self._slots[slot]
            self._slots[slot] = 0
        self._in_slots, self._at = self.total, at

    def _fill_slot(self) -> None:
        self._slots[self._at % len(self._slots)] += self.total - self._in_slots
        self._in_slots = self.total


_DAY_S = 86_400


class UsageEstimate(msgspec.Struct, frozen=True, gc=False):
    """The use expected of a request, reserved while it runs."""

    tokens: int = 0
    cost: float = 0.0


NOTHING = UsageEstimate()


@dataclass(slots=True)
class PeriodUsage:
    """Tokens and cost within one day or month."""

    until: float = 0.0
    """End, seconds since the epoch."""
    tokens: int = 0
    cost: float = 0.0


@dataclass(slots=True)
class TenantAccount:
    """Admits requests and counts usage. Synchronous; `now` is seconds since the epoch.

    A request is admitted while past usage, reservations of running requests and its own estimate stay within
    every limit. The estimate counts for no more than the limit, so that a tenant without usage and running
    requests is always admitted. Every `admit_request` is followed by one `settle_usage`.
    """

    tenant: str
    rates: RatesConfig = field(default_factory=RatesConfig)
    quotas: QuotasConfig = field(default_factory=QuotasConfig)
    owner_kind: str = "tenant"
    """What it is the account of, in messages."""
    owner_name: str = ""
    """Its name there; by default `tenant`."""
    in_flight: int = 0
    reserved_tokens: int = 0
    reserved_cost: float = 0.0
    day: PeriodUsage = field(default_factory=PeriodUsage)
    month: PeriodUsage = field(default_factory=PeriodUsage)
    refused: dict[str, int] = field(default_factory=dict)
    """Refused requests, by limit."""
    estimates: bool = field(init=False)
    """Whether a request's expected usage matters."""
    estimates_cost: bool = field(init=False)
    """Whether its expected cost does."""
    currency: str = field(init=False)
    """Currency of the quotas."""
    is_limited: bool = field(init=False)
    """Whether any limit is configured."""
    _max_concurrent: float = field(init=False)
    _max_requests: float = field(init=False)
    _max_tokens: float = field(init=False)
    _quota_limits: tuple[tuple[str, int | None, float | None], ...] = field(init=False)
    """Periods with a quota, and their limits of tokens and cost."""
    _requests: SlidingWindow = field(default_factory=SlidingWindow)
    _tokens: SlidingWindow = field(default_factory=SlidingWindow)
    _rolled_until: float = field(init=False)
    """Windows, day and month are those of the times before this one, the next whole second."""
    _free_requests: float = field(init=False)
    """Requests, and the tokens and the cost of past and running ones, that the limits leave until then. What
    stays below these needs no look at the limits one by one."""
    _free_tokens: float = field(init=False)
    _free_cost: float = field(init=False)

    def __post_init__(self) -> None:
        self.set_limits(self.rates, self.quotas)

    def set_limits(self, rates: RatesConfig, quotas: QuotasConfig) -> None:
        """Set the limits to `rates` and `quotas`; what is used and reserved stays."""
        self.rates, self.quotas = rates, quotas
        # Read for every request, and slow to ask pydantic for.
        self._max_concurrent = _or_infinite(rates.concurrent)
        self._max_requests = _or_infinite(rates.requests_per_minute)
        self._max_tokens = _or_infinite(rates.tokens_per_minute)
        self._quota_limits = tuple(
            limits
            for limits in (
                ("day", quotas.tokens_per_day, quotas.cost_per_day),
                ("month", quotas.tokens_per_month, quotas.cost_per_month),
            )
            if limits[1:] != (None, None)
        )
        self.is_limited = bool(self._quota_limits) or rates != RatesConfig()
        self.estimates = bool(self._quota_limits) or rates.tokens_per_minute is not None
        self.estimates_cost = quotas.has_cost_quota
        self.currency = quotas.currency
        self._rolled_until = -inf
        self._free_requests = self._free_tokens = self._free_cost = 0.0

    def admit_request(self, now: float, estimate: UsageEstimate = NOTHING) -> None:
        """Let a request in and reserve `estimate`. Raises LimitReachedError."""
        if self.is_limited:
            if now >= self._rolled_until:
                self._roll(now)
            if (
                self.in_flight >= self._max_concurrent
                or self._free_requests <= 0
                or self.reserved_tokens + estimate.tokens >= self._free_tokens
                or self.reserved_cost + estimate.cost >= self._free_cost
            ):
                self.check_limits(now, estimate)
        self.reserve_usage(now, estimate)

    def reserve_usage(self, now: float, estimate: UsageEstimate = NOTHING) -> None:
        """Reserve `estimate` for a request that was let in here or by a shared server."""
        self.in_flight += 1
        if self.estimates:
            self.reserved_tokens += estimate.tokens
            self.reserved_cost += estimate.cost
        if self.is_limited:
            if now >= self._rolled_until:
                self._roll(now)
            self._requests.total += 1
            self._free_requests -= 1

    def check_limits(self, now: float, estimate: UsageEstimate = NOTHING) -> None:
        """Check that a request may be admitted now. Raises LimitReachedError."""
        if self.is_limited:
            if now >= self._rolled_until:
                self._roll(now)
            self._check_rates(now, estimate)
            self._check_quotas(now, estimate)

    def count_refusal(self, now: float, limit: str, wait_s: int = 0) -> LimitReachedError:
        """Count a refused request and return its error. `wait_s` is computed for limits per day and month."""
        self.refused[limit] = self.refused.get(limit, 0) + 1
        kind, _, period = limit.partition("_per_")
        allowed = getattr(self.rates if limit in RatesConfig.model_fields else self.quotas, limit)
        if period in ("day", "month"):
            self._roll(now)
            wait_s = ceil((self.day if period == "day" else self.month).until - now)
        if kind == "concurrent":
            words = f"{allowed} requests at a time"
        elif kind == "cost":
            words = f"{format_cost(allowed)} {self.quotas.currency} a {period}"
        else:
            words = f"{allowed:,} {kind} a {period}"
        message = (
            f"the {self.owner_kind} {(self.owner_name or self.tenant)!r} may use {words} ({limit}), and has;"
            f" again in {wait_s} s"
        )
        return LimitReachedError(limit, message, wait_s)

    def settle_usage(self, now: float, estimate: UsageEstimate, tokens: int, cost: float) -> None:
        """Count the usage of an admitted request that is over; `cost` in the quotas' currency."""
        self.in_flight -= 1
        if self.estimates:
            self.reserved_tokens -= estimate.tokens
            self.reserved_cost = self.reserved_cost - estimate.cost if self.in_flight else 0.0
        if self.is_limited:
            if now >= self._rolled_until:
                self._roll(now)
            day, month = self.day, self.month
            self._tokens.total += tokens
            self._free_tokens -= tokens
            day.tokens += tokens
            month.tokens += tokens
            if cost:
                self._free_cost -= cost
                day.cost += cost
                month.cost += cost

    def restore_usage(self, now: float, tokens: int, cost: float, *, today: bool) -> None:
        """Count what was used, now or, before the start, earlier in this month."""
        self._roll(now)
        if today:
            self.day.tokens += tokens
            self.day.cost += cost
        self.month.tokens += tokens
        self.month.cost += cost
        self._rolled_until = -inf  # so that less is left

    def describe_limits(self, now: float) -> list[dict[str, Any]]:
        """Return every limit: how much is used, reservations aside, and when it is reset."""
        self._roll(now)
        rates, quotas = self.rates, self.quotas
        minute: dict[str, Any] = {"window_s": 60}
        currency: dict[str, Any] = {"currency": quotas.currency}
        day, month = ({"resets_in_s": ceil(spent.until - now)} for spent in (self.day, self.month))
        found: list[tuple[str, float | None, float, dict[str, Any]]] = [
            ("concurrent", rates.concurrent, self.in_flight, {}),
            ("requests_per_minute", rates.requests_per_minute, self._requests.current_total(now), minute),
            ("tokens_per_minute", rates.tokens_per_minute, self._tokens.current_total(now), minute),
            ("tokens_per_day", quotas.tokens_per_day, self.day.tokens, day),
            ("tokens_per_month", quotas.tokens_per_month, self.month.tokens, month),
            ("cost_per_day", quotas.cost_per_day, round(self.day.cost, 9), day | currency),
            ("cost_per_month", quotas.cost_per_month, round(self.month.cost, 9), month | currency),
        ]
        return [
            {"name": name, "limit": allowed, "used": used, **details}
            for name, allowed, used, details in found
            if allowed is not None
        ]

    def check_reservations(self) -> None:
        """Raise AssertionError where running requests do not agree with what is reserved."""
        assert self.in_flight >= 0 and self.reserved_tokens >= 0, self
        assert self.in_flight or (self.reserved_tokens == 0 and self.reserved_cost == 0), self
        self._requests.check()
        self._tokens.check()
        if self._rolled_until > 0:
            kept = self._free_requests, self._free_tokens, self._free_cost
            self._measure_free()
            assert kept[:2] == (self._free_requests, self._free_tokens), (kept, self)
            assert kept[2] == self._free_cost or abs(kept[2] - self._free_cost) < 1e-9, (kept, self)

    def _check_rates(self, now: float, estimate: UsageEstimate) -> None:
        if self.in_flight >= self._max_concurrent:
            raise self.count_refusal(now, "concurrent", 1)
        if self._requests.total >= self._max_requests:
            raise self.count_refusal(now, "requests_per_minute", self._requests.frees_in_s(now, 1))
        used, allowed = self._tokens.total, self._max_tokens
        over = used + self.reserved_tokens + min(estimate.tokens, allowed) - allowed
        if over > 0:
            wait_s = self._tokens.frees_in_s(now, int(over)) if used else 1
            raise self.count_refusal(now, "tokens_per_minute", wait_s)

    def _check_quotas(self, now: float, estimate: UsageEstimate) -> None:
        for name, tokens, cost in self._quota_limits:
            spent = self.day if name == "day" else self.month
            if tokens is not None and exceeds_limit(
                spent.tokens, self.reserved_tokens, estimate.tokens, tokens
            ):
                raise self.count_refusal(now, f"tokens_per_{name}")
            if cost is not None and exceeds_limit(spent.cost, self.reserved_cost, estimate.cost, cost):
                raise self.count_refusal(now, f"cost_per_{name}")

    def _roll(self, now: float) -> None:
        """Let the windows, the day and the month be those of `now`, until the next second."""
        self._requests.advance(now)
        self._tokens.advance(now)
        if now >= self.day.until:
            self.day = PeriodUsage(until=(now // _DAY_S + 1) * _DAY_S)
        if now >= self.month.until:
            self.month = PeriodUsage(until=_next_month(now))
        self._measure_free()
        self._rolled_until = int(now) + 1

    def _measure_free(self) -> None:
        """Set what the nearest limits leave."""
        self._free_requests = self._max_requests - self._requests.total
        self._free_tokens, self._free_cost = self._max_tokens - self._tokens.total, inf
        for name, tokens, cost in self._quota_limits:
            spent = self.day if name == "day" else self.month
            if tokens is not None:
                self._free_tokens = min(self._free_tokens, tokens - spent.tokens)
            if cost is not None:
                self._free_cost = min(self._free_cost, cost - spent.cost)


def _or_infinite(limit: int | None) -> float:
    return inf if limit is None else limit


def exceeds_limit(used: float, reserved: float, estimate: float, allowed: float) -> bool:
    """Return whether an `estimate`, which counts for no more than `allowed`, goes beyond `allowed`."""
    if used >= allowed:
        return True
    return used + reserved + (estimate if estimate < allowed else allowed) > allowed + 1e-9


def _next_month(now: float) -> float:
    first = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1).timestamp()


class LimitsBackend(Protocol):
    """Admits requests and counts their usage elsewhere than in this process alone.

    `now` is seconds since the epoch.
    """

    async def admit_request(
        self, account: TenantAccount, now: float, estimate: UsageEstimate = NOTHING
    ) -> None:
        """Let a request in and reserve `estimate`; one `settle_usage` follows. Raises LimitReachedError."""

    def settle_usage(
        self, account: TenantAccount, now: float, estimate: UsageEstimate, tokens: int, cost: float
    ) -> None:
        """Replace the `estimate` of a request that is over by its `tokens` and `cost`. Never waits."""

    async def limits_of(self, account: TenantAccount, now: float) -> list[dict[str, Any]]:
        """Return every limit of `account`, and how much of it is used."""
