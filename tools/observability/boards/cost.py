"""What it costs, whose it is, and what the choice of models saves."""

from observability.panels import Board, Panel, Row
from observability.queries import rate

_TENANT = '{tenant=~"$tenant", model=~"$model"}'

COST = Board(
    "cost",
    "cost",
    variables={"tenant": "radixway_tenant_requests_total", "model": "radixway_requests_total"},
    rows=[
        Row(
            "All requests",
            [
                Panel(
                    "Cost by model, an hour",
                    "short",
                    {
                        "{{model}} ({{currency}})": 'sum by (model, currency) (increase(radixway_cost_total{model=~"$model"}[1h]))'
                    },
                    stacked=True,
                ),
                Panel(
                    "Cost of a request",
                    "short",
                    {
                        "{{currency}}": 'sum by (currency) (rate(radixway_cost_total{model=~"$model"}[1h])) / on () group_left () sum(rate(radixway_requests_total{model=~"$model"}[1h]))'
                    },
                    "Of all requests, those that the caches answered for nothing included.",
                ),
                Panel(
                    "Tokens by model",
                    "short",
                    {"{{model}} {{kind}}": rate("radixway_tokens_total", "model, kind", '{model=~"$model"}')},
                ),
                Panel(
                    "Models that were chosen",
                    "reqps",
                    {"{{model}}": rate("llm_routing_reason_codes_total", "model")},
                    stacked=True,
                ),
                Panel(
                    "Sent to another model than they named",
                    "reqps",
                    {
                        "{{source_model}} → {{target_model}}": rate(
                            "llm_model_routing_modifications_total", "source_model, target_model"
                        )
                    },
                ),
                Panel(
                    "Told to think",
                    "reqps",
                    {
                        "{{model}} {{enabled}} {{effort}}": rate(
                            "llm_reasoning_decisions_total", "model, enabled, effort"
                        )
                    },
                ),
            ],
        ),
        Row(
            "Tenants",
            [
                Panel(
                    "Cost, an hour",
                    "short",
                    {
                        "{{tenant}} ({{currency}})": f"sum by (tenant, currency) (increase(radixway_tenant_cost_total{_TENANT}[1h]))"
                    },
                    stacked=True,
                ),
                Panel(
                    "Tokens",
                    "short",
                    {"{{tenant}} {{kind}}": rate("radixway_tenant_tokens_total", "tenant, kind", _TENANT)},
                ),
                Panel(
                    "Requests",
                    "reqps",
                    {
                        "{{tenant}}: {{outcome}}": rate(
                            "radixway_tenant_requests_total", "tenant, outcome", _TENANT
                        )
                    },
                ),
                Panel(
                    "Refused at a limit",
                    "reqps",
                    {
                        "{{tenant}}: {{limit}}": rate(
                            "radixway_tenant_refused_total", "tenant, limit", '{tenant=~"$tenant"}'
                        )
                    },
                ),
                Panel(
                    "In hand",
                    "short",
                    {"{{tenant}}": 'sum by (tenant) (radixway_tenant_in_hand{tenant=~"$tenant"})'},
                ),
                Panel(
                    "First byte, p95",
                    "s",
                    {
                        "{{tenant}}": 'histogram_quantile(0.95, sum by (le, tenant) (rate(radixway_tenant_first_byte_seconds_bucket{tenant=~"$tenant"}[$__rate_interval])))'
                    },
                ),
                Panel(
                    "Cost of the chosen time by tenant and model",
                    "short",
                    {
                        "cost": f"sum by (tenant, model, currency) (increase(radixway_tenant_cost_total{_TENANT}[$__range]))"
                    },
                    kind="table",
                    width=24,
                ),
            ],
        ),
    ],
)
