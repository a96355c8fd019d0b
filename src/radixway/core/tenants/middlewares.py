"""Middlewares that let a tenant's requests in, count what they use, and keep its prefixes apart."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter, time
from typing import Any

from radixway.core.pipeline import (
    BadRequest,
    Endpoint,
    MeteredChunks,
    ModelNotServedError,
    Next,
    Reply,
    Request,
    TokenUsage,
)
from radixway.core.telemetry import StepMetrics
from radixway.core.tenants.account import NOTHING, LimitsBackend, TenantAccount, UsageEstimate
from radixway.core.tenants.budgets import KeyAccess
from radixway.core.tenants.pricing import (
    DearestPrice,
    PriceList,
    count_prompt_tokens,
    estimate_request,
    estimate_usage_by_size,
)
from radixway.core.tenants.usage_ledger import ChargedUsage, UsageLedger, UsageTotals


class TenantLimits:
    """A `pipeline.Middleware` for every endpoint. Built only where tenants are configured."""

    step_name = "Limits"
    times_itself = True
    """It counts its own time, for less than the two frames that a pipeline would put around it."""

    def __init__(
        self,
        accounts: Mapping[str, TenantAccount],
        ledger: UsageLedger,
        prices: PriceList,
        dearest_price: DearestPrice,
        is_auto: Callable[[str], bool],
        steps: StepMetrics,
        clock: Callable[[], float] = time,
        shared: LimitsBackend | None = None,
    ) -> None:
        """`dearest_price`: what requests reserve. `is_auto`: whether a model's name leaves the choice to the
        gateway. `steps`: where its own time is counted. `clock`: since the epoch. `shared`: where limits are
        kept, if not in this process alone.
        """
        self._shared = shared
        self._accounts = accounts
        self._ledger = ledger
        self._prices = prices
        self._dearest_price = dearest_price
        self._is_auto = is_auto
        self._clock = clock
        self._times = steps.middleware_buckets(self)

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Return the answer of `call_next`. Raises ModelNotServedError, LimitReachedError."""
        tenancy = request.caller.policy
        if tenancy is None:
            return await call_next(request)
        own_s = -perf_counter()
        try:
            account = self._accounts[tenancy.name]
            model = request.model
            if model is not None and not tenancy.allows_model(model) and not self._is_auto(model):
                raise ModelNotServedError(model)
            estimate = NOTHING
            if account.estimates:
                currency = account.currency if account.estimates_cost else None
                estimate = self._estimate_usage(request, currency)
            key_estimate = NOTHING if request.caller.key is None else await self._admit_key(request)
            try:
                if self._shared is None:
                    account.admit_request(self._clock(), estimate)
                else:
                    await self._shared.admit_request(account, self._clock(), estimate)
            except BaseException:
                if isinstance(request.caller.key, KeyAccess):
                    request.caller.key.release(self._clock(), key_estimate, self._shared)
                raise
            own_s += perf_counter()
            try:
                reply = await call_next(request)
            except BaseException as failure:
                own_s -= perf_counter()
                left = isinstance(failure, asyncio.CancelledError) and request.routing.attempted_workers
                used = estimate_usage_by_size(request, 0) if left else None
                self._settle_request(request, account, estimate, key_estimate, used)
                raise
            own_s -= perf_counter()
            if reply.chunks is None:
                used = _usage_of_reply(request, reply)
                self._settle_request(request, account, estimate, key_estimate, used)
            else:
                self._settle_at_end(request, account, estimate, key_estimate, reply)
            return reply
        finally:
            own_s += perf_counter()
            self._times.observe_value(own_s)
            request.inner_steps_s += own_s

    def _settle_at_end(
        self,
        request: Request,
        account: TenantAccount,
        estimate: UsageEstimate,
        key_estimate: UsageEstimate,
        reply: Reply,
    ) -> None:
        """Settle a request when its stream is over."""
        done = partial(self._settle_stream, request, account, estimate, key_estimate)
        if isinstance(reply.chunks, MeteredChunks):
            reply.chunks.add_listener(done)
        elif reply.chunks is not None:  # a middleware changes the stream of the worker
            reply.chunks = MeteredChunks(reply.chunks, done, several=request.endpoint.has_token_ids)
            request.open_streams.append(reply.chunks)

    async def _admit_key(self, request: Request) -> UsageEstimate:
        """Let `request` in at the accounts of its key; return what they reserve.

        Raises BudgetExceededError, LimitReachedError.
        """
        key = request.caller.key
        assert isinstance(key, KeyAccess)
        estimate = self._estimate_usage(request, key.currency if key.estimates_cost else None)
        await key.admit_request(self._clock(), estimate, self._shared)
        return estimate

    def _estimate_usage(self, request: Request, currency: str | None) -> UsageEstimate:
        """Estimate tokens, and the cost in `currency` where that is given."""
        prompt_tokens, answer_tokens = estimate_request(request)
        cost = 0.0
        policy = request.caller.policy
        if currency is not None and policy is not None:
            pricing = self._dearest_price(request.model, policy, currency)
            if pricing is not None:
                cost = pricing.cost(prompt_tokens, answer_tokens)
        return UsageEstimate(prompt_tokens + answer_tokens, cost)

    def _settle_stream(
        self,
        request: Request,
        account: TenantAccount,
        estimate: UsageEstimate,
        key_estimate: UsageEstimate,
        used: TokenUsage,
    ) -> None:
        self._settle_request(request, account, estimate, key_estimate, _complete_usage(request, used))

    def _settle_request(
        self,
        request: Request,
        account: TenantAccount,
        estimate: UsageEstimate,
        key_estimate: UsageEstimate,
        used: TokenUsage | None,
    ) -> None:
        """Settle a finished request; `used` None: it failed and costs nothing."""
        now, routing = self._clock(), request.routing
        is_cached = not routing.attempted_workers
        model = (not is_cached and routing.resolved_model) or routing.metrics_model
        category = request.semantics.category or ""
        currency, tokens, cost = "", 0, 0.0
        if used is None or is_cached:
            row = self._ledger.current_row(now, account.tenant, model, category, currency)
            row.failed += used is None
            row.kept_answers += used is not None
        else:
            prompt, cached, completion = used.prompt_tokens, used.cached_tokens, used.completion_tokens
            tokens = prompt + completion
            pricing = routing.pricing or self._prices.pricing_of(model)
            if pricing is not None:
                cost, currency = pricing.cost(prompt, completion), pricing.currency
            row = self._ledger.current_row(now, account.tenant, model, category, currency)
            if used.estimated:
                row.estimated += 1
            if cached:
                row.cached_tokens += cached
            row.prompt_tokens += prompt
            row.completion_tokens += completion
            row.cost += cost
            request.journal.add(
                "usage", ChargedUsage(prompt, cached, completion, used.estimated, cost, model, currency)
            )
        row.requests += 1
        key = request.caller.key
        if isinstance(key, KeyAccess):
            figures = UsageTotals(requests=1, failed=int(used is None), cost=cost)
            if used is not None and is_cached:
                figures.kept_answers = 1
            elif used is not None:
                figures.estimated = int(used.estimated)
                figures.prompt_tokens, figures.completion_tokens = used.prompt_tokens, used.completion_tokens
                figures.cached_tokens = used.cached_tokens
            key.settle_usage(now, key_estimate, model, currency, figures, self._shared)
        if currency != account.currency:
            cost = 0.0
        if self._shared is None:
            account.settle_usage(now, estimate, tokens, cost)
        else:
            self._shared.settle_usage(account, now, estimate, tokens, cost)


class SessionAdmission:
    """Refuses calls of sessions, whose limits are kept further down, before they are read."""

    step_name = "Door"

    def __init__(self, accounts: Mapping[str, TenantAccount], clock: Callable[[], float] = time) -> None:
        self._accounts = accounts
        self._clock = clock

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Return the answer of `call_next`. Raises LimitReachedError."""
        if request.caller.policy is not None:
            self._accounts[request.caller.policy.name].check_limits(self._clock())
        return await call_next(request)


def _usage_of_reply(request: Request, reply: Reply) -> TokenUsage | None:
    if not 200 <= reply.status < 300:
        return None
    used = reply.reported_usage(generates=request.endpoint.generates)
    return used or estimate_usage_by_size(request, len(reply.body))


def _complete_usage(request: Request, used: TokenUsage) -> TokenUsage:
    """Complete a stream's usage; estimate the prompt if none was reported."""
    if not used.estimated or used.prompt_tokens:
        return used
    return TokenUsage(count_prompt_tokens(request), used.completion_tokens, estimated=True)


class CacheSalting:
    """Sets the endpoint's `salt_field`, which engines and this gateway's block index read: `cache_salt`, as
    vLLM, SGLang and our engine know it on OpenAI's paths, and `extra_key` on `/generate`, as SGLang has it.

    It stands inside of the semantic cache, whose scopes do not depend on it.
    """

    step_name = "Salting"

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether engines cache prefixes of its requests."""
        return bool(endpoint.salt_field)

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Return the answer of `call_next`. Raises BadRequest for a salt of the client's that is no text."""
        tenancy = request.caller.policy
        if tenancy is not None and tenancy.cache_salt is not None:
            name = request.endpoint.salt_field
            own = request.body.get(name) if name.encode() in request.raw else None
            request.edit(**{name: _combine_salt(tenancy.cache_salt, own, name)})
        return await call_next(request)


def _combine_salt(salt: str, own: Any, field: str) -> str | list[str]:
    """Combine the tenant's salt with the client's own; a batch may have one per prompt."""
    if own is None:
        return salt
    if isinstance(own, str):
        return f"{salt}/{own}"
    if isinstance(own, list) and all(isinstance(item, str) for item in own):
        return [f"{salt}/{item}" for item in own]
    raise BadRequest(f"{field} must be a text", param=field)
