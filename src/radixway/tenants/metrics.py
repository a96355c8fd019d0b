"""Tenants in Prometheus' words, made when somebody scrapes.

Names of tenants come from the configuration alone, those of models from what is served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from radixway.tenants.account import Account
from radixway.tenants.book import Figures


@dataclass(frozen=True, slots=True, eq=False)
class TenantsCollector(Collector):
    """Counts since the start, by tenant and model."""

    accounts: Mapping[str, Account]
    totals: Mapping[tuple[str, str, str], Figures]
    """By tenant, model and currency."""

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """See `Collector`."""
        requests = CounterMetricFamily(
            "radixway_tenant_requests", "Requests of tenants", labels=["tenant", "model", "outcome"]
        )
        tokens = CounterMetricFamily(
            "radixway_tenant_tokens", "Tokens of tenants' requests", labels=["tenant", "model", "kind"]
        )
        cost = CounterMetricFamily(
            "radixway_tenant_cost", "What tenants' tokens cost", labels=["tenant", "model", "currency"]
        )
        whole: dict[tuple[str, str], Figures] = {}
        for (tenant, model, currency), figures in self.totals.items():
            whole.setdefault((tenant, model), Figures()).add(figures)
            if currency:
                cost.add_metric([tenant, model, currency], figures.cost)
        for labels, figures in whole.items():
            answered = figures.requests - figures.failed - figures.kept_answers
            requests.add_metric([*labels, "answered"], answered)
            requests.add_metric([*labels, "kept_answer"], figures.kept_answers)
            requests.add_metric([*labels, "failed"], figures.failed)
            tokens.add_metric([*labels, "prompt"], figures.prompt_tokens)
            tokens.add_metric([*labels, "cached"], figures.cached_tokens)
            tokens.add_metric([*labels, "completion"], figures.completion_tokens)
        yield from (requests, tokens, cost)
        refused = CounterMetricFamily(
            "radixway_tenant_refused", "Requests of tenants over a limit", labels=["tenant", "limit"]
        )
        in_hand = GaugeMetricFamily("radixway_tenant_in_hand", "Requests in hand", labels=["tenant"])
        for tenant, account in self.accounts.items():
            in_hand.add_metric([tenant], account.in_hand)
            for limit, count in account.refused.items():
                refused.add_metric([tenant, limit], count)
        yield from (refused, in_hand)
