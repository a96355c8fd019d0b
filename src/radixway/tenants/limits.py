"""The middleware that stands first: lets a tenant's requests in, and counts what they use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import time

from radixway.pipeline import (
    ANY_MODEL,
    Metered,
    ModelNotFound,
    Next,
    Reply,
    Request,
    Tenancy,
    Used,
    used_of,
)
from radixway.tenants.account import NOTHING, Account, Estimate
from radixway.tenants.book import Figures, UsageBook, Use
from radixway.tenants.estimating import expected_use, prompt_size, used_by_size
from radixway.tenants.home import InProcess, LimitsHome
from radixway.tenants.prices import Prices


class Limits:
    """A `pipeline.Middleware` for every endpoint. Built only where tenants are configured."""

    def __init__(
        self,
        accounts: Mapping[str, Account],
        book: UsageBook,
        prices: Prices,
        is_auto: Callable[[str], bool] = lambda model: model == ANY_MODEL,
        clock: Callable[[], float] = time,
        home: LimitsHome | None = None,
    ) -> None:
        """`is_auto`: whether a model's name leaves the choice to the gateway. `clock`: since the epoch.

        `home`: where limits are kept; by default in this process.
        """
        self._home = home or InProcess()
        self._accounts = accounts
        self._book = book
        self._prices = prices
        self._is_auto = is_auto
        self._clock = clock

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """The answer of whoever comes next.

        Raises:
            ModelNotFound: the tenant may not use the model.
            LimitReached: it may not use more now.
        """
        tenancy = request.tenancy
        if tenancy is None:
            return await call_next(request)
        account = self._accounts[tenancy.name]
        self._check_model(request, tenancy)
        estimate = self._estimate(account, request) if account.estimates else NOTHING
        await self._home.admit(account, self._clock(), estimate)
        try:
            reply = await call_next(request)
        except BaseException as failure:
            left = isinstance(failure, asyncio.CancelledError) and bool(request.asked)
            self._settle(request, account, estimate, used_by_size(request, 0) if left else None)
            raise
        if reply.chunks is None:
            self._settle(request, account, estimate, _used_in(request, reply))
            return reply

        def done(used: Used) -> None:
            self._settle(request, account, estimate, _whole(request, used))

        reply.chunks = Metered(reply.chunks, done, several=request.endpoint.has_token_ids)
        request.opened.append(reply.chunks)
        return reply

    def _check_model(self, request: Request, tenancy: Tenancy) -> None:
        model = request.model
        if model is not None and not tenancy.allows(model) and not self._is_auto(model):
            raise ModelNotFound(model)

    def _estimate(self, account: Account, request: Request) -> Estimate:
        used = expected_use(request.raw, generates=request.endpoint.generates)
        price = self._prices.of(request.model or "", used.prompt_tokens, used.completion_tokens)
        return Estimate(used.tokens, price.cost if price.currency == account.quotas.currency else 0.0)

    def _settle(self, request: Request, account: Account, estimate: Estimate, used: Used | None) -> None:
        """The request is over. `used` None: it has failed, and cost nothing."""
        now, kept = self._clock(), not request.asked
        model = request.answering if request.asked and request.answering else request.known_model
        figures = Figures(requests=1, failed=int(used is None), kept_answers=int(kept and used is not None))
        currency = ""
        if used is not None and not kept:
            figures.estimated = int(used.estimated)
            figures.prompt_tokens, figures.completion_tokens = used.prompt_tokens, used.completion_tokens
            figures.cached_tokens = used.cached_tokens
            figures.cost, currency = self._prices.of(model, used.prompt_tokens, used.completion_tokens)
            request.journal.add("usage", Use(figures, model, currency))
        counts = figures.cost if currency == account.quotas.currency else 0.0
        self._home.settle(account, now, estimate, figures.prompt_tokens + figures.completion_tokens, counts)
        self._book.count(now, account.tenant, model, request.category or "", currency, figures)


class Door:
    """A `pipeline.Middleware` before what reads calls of sessions, whose limits are kept further down:
    for whoever could not be let in anyway nobody reads.
    """

    def __init__(self, accounts: Mapping[str, Account], clock: Callable[[], float] = time) -> None:
        self._accounts = accounts
        self._clock = clock

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """The answer of whoever comes next. Raises LimitReached."""
        if request.tenancy is not None:
            self._accounts[request.tenancy.name].check_room(self._clock())
        return await call_next(request)


def _used_in(request: Request, reply: Reply) -> Used | None:
    """What a whole reply used; None where it is no answer."""
    if not 200 <= reply.status < 300:
        return None
    return used_of(reply.body, generates=request.endpoint.generates) or used_by_size(request, len(reply.body))


def _whole(request: Request, used: Used) -> Used:
    """What a stream used; where it reported nothing, its prompt has to be estimated too."""
    if not used.estimated or used.prompt_tokens:
        return used
    prompt = request.prompt_tokens if request.prompt_tokens is not None else prompt_size(request.raw)
    return Used(prompt, used.completion_tokens, estimated=True)
