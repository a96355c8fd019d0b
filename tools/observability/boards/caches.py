"""What need not be computed: answers used again by meaning, prefixes in KV caches."""

from observability.panels import Board, Panel, Row
from observability.queries import q, rate

_HERE = '{model=~"$model", worker=~"$worker"'
_PROMPT = _HERE + ', kind="prompt"}'
_CACHED = _HERE + ', kind="cached"}'


def _hits(by: str, label: str = "") -> str:
    having = f'{_HERE}, by="{by}"}}'
    cached = rate("radixway_prefix_cached_tokens_total", label, having)
    return f"{cached} / {rate('radixway_prefix_prompt_tokens_total', label, having)}"


CACHES = Board(
    "caches",
    "cache efficiency",
    variables={"model": "radixway_requests_total", "worker": "radixway_breaker"},
    rows=[
        Row(
            "Prefixes in KV caches",
            [
                Panel(
                    "Share of prompts' tokens that were cached",
                    "percentunit",
                    {"expected": _hits("predicted"), "had": _hits("reported")},
                    "Expected by the gateway when it chose; had, as workers say.",
                ),
                Panel("The same by worker", "percentunit", {"{{worker}}": _hits("reported", "worker")}),
                Panel("The same by model", "percentunit", {"{{model}}": _hits("reported", "model")}),
                Panel(
                    "How wrong expectations are",
                    "percentunit",
                    {
                        "p10": q(0.1, "radixway_prefix_prediction_error_ratio", "", '{model=~"$model"}'),
                        "p50": q(0.5, "radixway_prefix_prediction_error_ratio", "", '{model=~"$model"}'),
                        "p90": q(0.9, "radixway_prefix_prediction_error_ratio", "", '{model=~"$model"}'),
                    },
                    "Expected less had, as a share of the prompt. Above 0: less was there than expected.",
                ),
                Panel(
                    "Prompt tokens that were computed, and that were not",
                    "short",
                    {
                        "computed": f"{rate('radixway_tokens_total', '', _PROMPT)}"
                        f" - {rate('radixway_tokens_total', '', _CACHED)}",
                        "cached": rate("radixway_tokens_total", "", _CACHED),
                    },
                    stacked=True,
                ),
                Panel(
                    "Caches held by running requests",
                    "percentunit",
                    {"{{worker}}": 'radixway_worker_kv_usage_ratio{worker=~"$worker"}'},
                ),
                Panel(
                    "Tiers: filled",
                    "percentunit",
                    {
                        "{{worker}} {{tier}}": 'radixway_worker_tier_cached_tokens{worker=~"$worker"}'
                        ' / radixway_worker_tier_tokens{worker=~"$worker"}'
                    },
                ),
                Panel(
                    "Evicted",
                    "short",
                    {
                        "events of workers": rate("radixway_kv_events_total", "", '{kind="removed"}'),
                        "tokens, {{tier}}": rate("radixway_engine_tier_evicted_tokens_total", "tier"),
                    },
                    "What had to make room: as workers' KV events say, and tokens by tier of Radixway's own engines.",
                ),
                Panel("KV events", "short", {"{{kind}}": rate("radixway_kv_events_total", "kind")}),
                Panel(
                    "Workers by the state of their KV events",
                    "short",
                    {
                        "{{state}}": "sum by (state) (radixway_kv_event_workers)",
                        "incidents: {{kind}}": rate("radixway_kv_event_incidents_total", "kind"),
                    },
                ),
            ],
        ),
        Row(
            "The semantic cache",
            [
                Panel(
                    "Share of answers from the cache",
                    "percentunit",
                    {
                        "hits": f"{rate('llm_cache_hits_total')} / ({rate('llm_cache_hits_total')} + {rate('llm_cache_misses_total')})"
                    },
                ),
                Panel(
                    "Lookups and stores, p99",
                    "s",
                    {"{{operation}}": q(0.99, "llm_cache_operation_duration_seconds", "operation")},
                ),
                Panel("Entries", "short", {"{{backend}}": "sum by (backend) (llm_cache_entries_total)"}),
                Panel("Evicted", "ops", {"{{backend}}": rate("radixway_cache_evicted_total", "backend")}),
                Panel("Not asked", "reqps", {"{{reason}}": rate("radixway_cache_passed_total", "reason")}),
                Panel(
                    "Told apart by the verifier",
                    "reqps",
                    {"{{reason}}": rate("radixway_cache_refused_total", "reason")},
                ),
                Panel("Not kept", "reqps", {"{{reason}}": rate("radixway_cache_not_kept_total", "reason")}),
                Panel(
                    "Operations",
                    "ops",
                    {"{{operation}} {{status}}": rate("llm_cache_operations_total", "operation, status")},
                ),
            ],
        ),
    ],
)
