"""Budgets and rates of keys, users and teams that are made at run time."""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from math import ceil, inf
from typing import Literal

import msgspec

from radixway.core.config import RatesConfig
from radixway.core.config.tenants import format_cost
from radixway.core.pipeline import CallerKey, ForbiddenError, GatewayError, UnauthorizedError
from radixway.core.tenants.account import LimitsBackend, TenantAccount, UsageEstimate, exceeds_limit
from radixway.core.tenants.budget_period import BudgetPeriod
from radixway.core.tenants.usage_ledger import UsageTotals, day_of

SpenderKind = Literal["key", "user", "team"]


class BudgetExceededError(GatewayError):
    """A key, its user or its team has spent its budget: `param` says which of them."""

    status = 429
    quotes = False
    code = "budget_exceeded"
    kind = "budget_exceeded"

    def __init__(self, spender: "SpendAccount", now: float) -> None:
        limits = spender.limits
        spent = (
            f"{format_cost(spender.spent_now)} of {format_cost(limits.max_budget or 0)} {spender.currency}"
        )
        wait_s = None
        again = ""
        if spender.resets_at < inf:
            wait_s = max(ceil(spender.resets_at - now), 1)
            again = f"; again in {wait_s} s"
        message = f"the budget of the {spender.kind} {spender.name!r} is used up: {spent}{again}"
        super().__init__(message, param=spender.kind, retry_after_s=wait_s)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Add to the headers that OpenAI's clients do not try again at once."""
        return [*super().headers(), (b"x-should-retry", b"false")]


class SpendLimits(msgspec.Struct, frozen=True):
    """What a key, user or team may use. None: no limit."""

    max_budget: float | None = None
    """The hard end: beyond it requests are refused."""
    soft_budget: float | None = None
    """Beyond it an alert is sent."""
    budget_duration: str | None = None
    """When the spending begins anew, as `30d`; None: never."""
    rpm_limit: int | None = None
    tpm_limit: int | None = None
    max_parallel_requests: int | None = None


class SpendAccount:
    """What one key, user or team has spent in its period, and what its running requests have reserved.

    Spending is what the store told last, and what was counted here since; the store is told the latter by
    its difference (`take_unsaved`), so that all gateways count together. Rates are shared as those of tenants
    are, by a `LimitsBackend`, if there is one.
    """

    def __init__(self, kind: SpenderKind, id: str, name: str, limits: SpendLimits, currency: str) -> None:
        """`name`: for people."""
        self.kind: SpenderKind = kind
        self.id = id
        self.resets_at = inf
        """End of the period, seconds since the epoch."""
        self._stored = 0.0
        self._unsaved = 0.0
        self._saving = 0.0
        self._late = 0.0
        """Spent in an earlier period, and not saved yet."""
        self._rates = TenantAccount(f"{kind}:{id}", owner_kind=kind)  # no tenant has a colon in its name
        self._rates.estimates = True  # whatever the limits are when a request that is running now has ended
        self.set_limits(name, limits, currency)

    def set_limits(self, name: str, limits: SpendLimits, currency: str) -> None:
        """Take up other `limits`; what is spent and reserved stays."""
        self.name, self.limits, self.currency = name, limits, currency
        self._rates.owner_name = name
        self._rates.set_limits(
            RatesConfig(
                requests_per_minute=limits.rpm_limit,
                tokens_per_minute=limits.tpm_limit,
                concurrent=limits.max_parallel_requests,
            ),
            self._rates.quotas,
        )
        self._rates.estimates = True
        self._period = None if limits.budget_duration is None else BudgetPeriod(limits.budget_duration)

    @property
    def spent_now(self) -> float:
        """What is spent in the present period, without reservations."""
        return self._stored + self._saving + self._unsaved

    @property
    def unsaved(self) -> float:
        """What was spent here, in this period and earlier ones, and the store does not have."""
        return self._unsaved + self._late

    @property
    def has_unsaved(self) -> bool:
        """True if `take_unsaved` has something to take."""
        return bool(self._unsaved or self._late)

    @property
    def in_flight(self) -> int:
        """Requests that run now."""
        return self._rates.in_flight

    @property
    def estimates_cost(self) -> bool:
        """Whether a request's expected cost matters."""
        return self.limits.max_budget is not None

    async def admit_request(
        self, now: float, estimate: UsageEstimate, shared: LimitsBackend | None = None
    ) -> None:
        """Let a request in and reserve `estimate`. Raises BudgetExceededError, LimitReachedError.

        `shared`: judges the rates, if not this process alone.
        """
        self._check_budget(now, estimate, self._rates.reserved_cost)
        if shared is None:
            self._rates.admit_request(now, estimate)
            return
        await shared.admit_request(self._rates, now, estimate)
        try:  # others have come in meanwhile
            self._check_budget(now, estimate, self._rates.reserved_cost - estimate.cost)
        except BudgetExceededError:
            shared.settle_usage(self._rates, now, estimate, 0, 0.0)
            raise

    def settle_usage(
        self,
        now: float,
        estimate: UsageEstimate,
        tokens: int,
        cost: float,
        shared: LimitsBackend | None = None,
    ) -> None:
        """Count the usage of a request that was let in and is over. `shared`: as it was let in."""
        self.begin_due_period(now)
        if shared is None:
            self._rates.settle_usage(now, estimate, tokens, cost)
        else:
            shared.settle_usage(self._rates, now, estimate, tokens, cost)
        self._unsaved += cost

    def _check_budget(self, now: float, estimate: UsageEstimate, reserved: float) -> None:
        self.begin_due_period(now)
        allowed = self.limits.max_budget
        if allowed is not None and exceeds_limit(self.spent_now, reserved, estimate.cost, allowed):
            self._rates.refused["budget"] = self._rates.refused.get("budget", 0) + 1
            raise BudgetExceededError(self, now)

    def load_spending(self, now: float, spent: float, resets_at: float | None) -> None:
        """Take up what the store says: `spent` in the period that ends at `resets_at` (None: never)."""
        ends = inf if resets_at is None else resets_at
        if now >= ends and self._period is not None:
            spent, ends = 0.0, self._period.next_end(ends, now)
        if ends != self.resets_at and self.resets_at < inf:
            self._late += self._unsaved
            self._unsaved = 0.0
        self._stored, self.resets_at = spent, ends

    def take_unsaved(self) -> tuple[float, float]:
        """Return what is to be saved of this period, and of earlier ones; `saved` or `unsave` follows."""
        taken, late = self._unsaved, self._late
        self._saving, self._unsaved, self._late = taken, 0.0, 0.0
        return taken, late

    def confirm_saved(self) -> None:
        """Forget what was taken: it is in the store."""
        self._stored += self._saving
        self._saving = 0.0

    def restore_unsaved(self, late: float) -> None:
        """Take back what could not be saved."""
        self._unsaved += self._saving
        self._late += late
        self._saving = 0.0

    def check(self) -> None:
        """Raise AssertionError where running requests do not agree with what is reserved."""
        self._rates.check_reservations()

    def begin_due_period(self, now: float) -> None:
        """Begin a new period where the last one is over."""
        if now < self.resets_at:
            return
        self._late += self._unsaved
        self._stored = self._unsaved = 0.0
        self.resets_at = inf if self._period is None else self._period.next_end(self.resets_at, now)


class SpendKey(msgspec.Struct, frozen=True):
    """By what the spending of keys is told apart."""

    day: str
    """UTC, as 2026-11-21."""
    key_id: str
    user_id: str
    """Empty where the key has no user."""
    team_id: str
    model: str
    currency: str
    """Empty where the model has no price."""


class SpendRows:
    """Usage of keys by day, model and whose they are, until the store has it."""

    def __init__(self) -> None:
        self._rows: dict[SpendKey, UsageTotals] = {}

    def add_usage(self, key: SpendKey, figures: UsageTotals) -> None:
        """Add `figures` to the row `key`."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = UsageTotals()
        row.add_totals(figures)

    def take_rows(self) -> dict[SpendKey, UsageTotals]:
        """Return and forget what was counted since the last time."""
        taken, self._rows = self._rows, {}
        return taken


ROUTE_GROUPS = {"llm_api_routes": ("*",), "openai_routes": ("*",)}
"""Names of LiteLLM's for many paths: those that models answer are all that a key without scopes may call."""


class KeyAccess(CallerKey):
    """What one key of the store may do, and who pays for it."""

    def __init__(
        self,
        id: str,
        accounts: Sequence[SpendAccount],
        rows: SpendRows,
        *,
        user_id: str | None,
        team_id: str,
        currency: str,
        endpoints: Collection[str] = (),
        expires_at: float | None = None,
        blocked: str | None = None,
    ) -> None:
        """`accounts`: of the key, its user and its team. `endpoints`: paths or patterns (`/v1/chat/*`), with
        or without `/v1`, but that `/v1/*` are those with it; none: all. `expires_at`: seconds since the
        epoch. `blocked`: what of it is blocked.
        """
        self.id = id
        self.accounts = tuple(accounts)
        self.currency = currency
        self.expires_at = expires_at
        self._rows = rows
        self._user_id = user_id or ""
        self._team_id = team_id
        self._endpoints = {
            pattern
            for given in endpoints
            for named in ROUTE_GROUPS.get(given, (given,))
            for pattern in (named, _with_or_without_v1(named))
        }
        self._allowed: dict[str, bool] = {}
        self._blocked = blocked
        self._for_tenants: dict[str, KeyAccess] = {}
        self.estimates_cost = any(account.estimates_cost for account in accounts)
        self.has_budget = any(
            account.limits.max_budget is not None or account.limits.soft_budget is not None
            for account in accounts
        )

    def naming(self, tenant: str, team: "KeyAccess | None") -> "KeyAccess":
        """Return the access of a request by this key, a proxy's, which names `tenant`: both pay.

        `team`: the tenant's, where it was made at run time.
        """
        known = self._for_tenants.get(tenant)
        if known is None:
            accounts = self.accounts if team is None else dict.fromkeys((*self.accounts, *team.accounts))
            blocked = self._blocked or (None if team is None else team._blocked)
            known = self._for_tenants[tenant] = KeyAccess(
                self.id,
                tuple(accounts),
                self._rows,
                user_id=None,
                team_id=tenant,
                currency=self.currency,
                endpoints=self._endpoints,
                expires_at=self.expires_at,
                blocked=blocked,
            )
        return known

    def is_usable(self, now: float) -> bool:
        """Return whether the key has neither expired nor been blocked."""
        return self._blocked is None and (self.expires_at is None or now < self.expires_at)

    def check_call(self, path: str, now: float) -> None:
        """Check that the key may call `path` now. Raises UnauthorizedError, ForbiddenError."""
        self.check_valid(now)
        if self._endpoints and not self._allows_path(path):
            raise ForbiddenError(f"this key may not call {path[:200]}", code="endpoint_not_allowed")

    def check_valid(self, now: float) -> None:
        """Check that the key may be used now. Raises UnauthorizedError, ForbiddenError."""
        if self.expires_at is not None and now >= self.expires_at:
            raise UnauthorizedError("this key has expired", code="key_expired")
        if self._blocked is not None:
            raise ForbiddenError(f"this {self._blocked} is blocked", code=f"{self._blocked}_blocked")

    async def admit_request(
        self, now: float, estimate: UsageEstimate, shared: LimitsBackend | None = None
    ) -> None:
        """Let a request in at every account, or at none. Raises BudgetExceededError, LimitReachedError.

        `shared`: judges the rates, if not this process alone.
        """
        for at, account in enumerate(self.accounts):
            try:
                await account.admit_request(now, estimate, shared)
            except BaseException:
                self.release(now, estimate, shared, self.accounts[:at])
                raise

    def settle_usage(
        self,
        now: float,
        estimate: UsageEstimate,
        model: str,
        currency: str,
        figures: UsageTotals,
        shared: LimitsBackend | None = None,
    ) -> None:
        """Count `figures` of one request that is over: cost in `currency`, of `model`. `shared`: as it was
        let in.
        """
        cost = figures.cost if currency == self.currency else 0.0
        tokens = figures.prompt_tokens + figures.completion_tokens
        for account in self.accounts:
            account.settle_usage(now, estimate, tokens, cost, shared)
        row = SpendKey(day_of(now), self.id, self._user_id, self._team_id, model, currency)
        self._rows.add_usage(row, figures)

    def release(
        self,
        now: float,
        estimate: UsageEstimate,
        shared: LimitsBackend | None = None,
        accounts: Sequence[SpendAccount] | None = None,
    ) -> None:
        """Give back what `accounts`, by default all, reserved for a request that was not let in elsewhere."""
        for account in self.accounts if accounts is None else accounts:
            account.settle_usage(now, estimate, 0, 0.0, shared)

    def _allows_path(self, path: str) -> bool:
        allowed = self._allowed.get(path)
        if allowed is None:
            allowed = any(fnmatchcase(path, pattern) for pattern in self._endpoints)
            if len(self._allowed) < 256:
                self._allowed[path] = allowed
        return allowed


def _with_or_without_v1(pattern: str) -> str:
    """Return the other name of the paths of `pattern`, or itself where it is about `/v1` as such."""
    short = pattern.removeprefix("/v1")
    if short.startswith(("/*", "*")):
        return pattern
    return short if short != pattern else f"/v1{pattern}"
