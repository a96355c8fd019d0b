"""Tenants in Prometheus' words, made when somebody scrapes. Names come from the configuration alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from radixway.tenants.account import Account
from radixway.tenants.book import Figures


@dataclass(frozen=True, slots=True, eq=False)
class TenantsCollector(Collector):
    """Counts since the start, by tenant."""

    accounts: Mapping[str, Account]
    totals: Mapping[tuple[str, str], Figures]
    """By tenant and currency."""

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        requests = CounterMetricFamily(
            "radixway_tenant_requests", "Requests of tenants", labels=["tenant", "outcome"]
        )
        tokens = CounterMetricFamily(
            "radixway_tenant_tokens", "Tokens of tenants' requests", labels=["tenant", "kind"]
        )
        cost = CounterMetricFamily(
            "radixway_tenant_cost", "What tenants' tokens cost", labels=["tenant", "currency"]
        )
        for tenant in self.accounts:
            whole = Figures()
            for (name, currency), figures in self.totals.items():
                if name == tenant:
                    whole.add(figures)
                    if currency:
                        cost.add_metric([tenant, currency], figures.cost)
            requests.add_metric([tenant, "answered"], whole.requests - whole.failed - whole.kept_answers)
            requests.add_metric([tenant, "kept_answer"], whole.kept_answers)
            requests.add_metric([tenant, "failed"], whole.failed)
            tokens.add_metric([tenant, "prompt"], whole.prompt_tokens)
            tokens.add_metric([tenant, "cached"], whole.cached_tokens)
            tokens.add_metric([tenant, "completion"], whole.completion_tokens)
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
