"""Metrics of tenants, made at each scrape.

Names of tenants come from the configuration alone, those of models from what is served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from radixway.core.telemetry import MetricsRegistry
from radixway.core.tenants.account import TenantAccount
from radixway.core.tenants.usage_ledger import UsageTotals

Children = Iterator[tuple[tuple[str, ...], float]]


def publish_tenants(
    metrics: MetricsRegistry,
    accounts: Mapping[str, TenantAccount],
    totals: Mapping[tuple[str, str, str], UsageTotals],
) -> None:
    """Publish counts since the start; `totals`: by tenant, model and currency."""

    def whole() -> Iterator[tuple[tuple[str, str], UsageTotals]]:
        by_model: dict[tuple[str, str], UsageTotals] = {}
        for (tenant, model, _), figures in totals.items():
            by_model.setdefault((tenant, model), UsageTotals()).add_totals(figures)
        yield from by_model.items()

    def requests() -> Children:
        for labels, figures in whole():
            answered = figures.requests - figures.failed - figures.kept_answers
            yield (*labels, "answered"), answered
            yield (*labels, "kept_answer"), figures.kept_answers
            yield (*labels, "failed"), figures.failed

    def tokens() -> Children:
        for labels, figures in whole():
            yield (*labels, "prompt"), figures.prompt_tokens
            yield (*labels, "cached"), figures.cached_tokens
            yield (*labels, "completion"), figures.completion_tokens

    def cost() -> Children:
        for labels, figures in totals.items():
            if labels[2]:
                yield labels, figures.cost

    def refused() -> Children:
        for tenant, account in accounts.items():
            for limit, count in account.refused.items():
                yield (tenant, limit), count

    counters = metrics.counters_by
    counters("radixway_tenant_requests", "Requests of tenants", ("tenant", "model", "outcome"), requests)
    counters("radixway_tenant_tokens", "Tokens of tenants' requests", ("tenant", "model", "kind"), tokens)
    counters("radixway_tenant_cost", "What tenants' tokens cost", ("tenant", "model", "currency"), cost)
    counters("radixway_tenant_refused", "Requests of tenants over a limit", ("tenant", "limit"), refused)
    metrics.gauges(
        "radixway_tenant_in_hand",
        "Requests in hand",
        "tenant",
        lambda: [(tenant, account.in_hand) for tenant, account in accounts.items()],
    )
