"""The workers: are they there, how full are they, how fast, and should there be more."""

from observability.panels import Board, Panel, Row
from observability.queries import q, rate

_HERE = '{worker=~"$worker", model=~"$model"}'
_WORKER = '{worker=~"$worker"}'

WORKERS = Board(
    "workers",
    "workers",
    variables={"worker": "radixway_breaker", "model": "radixway_requests_total"},
    rows=[
        Row(
            "Are they there",
            [
                Panel(
                    "Workers",
                    "short",
                    {
                        "ready": "min(radixway_workers_ready)",
                        "known": "max(radixway_workers)",
                        "waiting for weights": "max(radixway_workers_stale)",
                    },
                ),
                Panel(
                    "States",
                    "short",
                    {
                        "{{state}}": f"count by (state) (max by (worker, state) (radixway_worker_state{_WORKER}))"
                    },
                    stacked=True,
                ),
                Panel(
                    "Breakers: 1 is open",
                    "short",
                    {"{{worker}}": f"max by (worker) (radixway_breaker{_WORKER})"},
                ),
                Panel(
                    "How attempts ended",
                    "reqps",
                    {"{{outcome}}": rate("radixway_worker_requests_total", "outcome", _HERE)},
                    stacked=True,
                ),
                Panel(
                    "Who answers",
                    "reqps",
                    {"{{worker}}": rate("radixway_worker_requests_total", "worker", _HERE)},
                ),
                Panel(
                    "Sources",
                    "short",
                    {
                        "{{source}} names": "sum by (source) (radixway_discovery_workers)",
                        "{{source}} is up": "min by (source) (radixway_discovery_up)",
                    },
                ),
            ],
        ),
        Row(
            "How full",
            [
                Panel(
                    "Requests in hand",
                    "short",
                    {"{{worker}}": f"sum by (worker) (radixway_worker_in_flight{_WORKER})"},
                ),
                Panel(
                    "Tokens still to prefill",
                    "short",
                    {"{{worker}}": f"sum by (worker) (radixway_worker_prefill_tokens{_WORKER})"},
                    "As the gateways reckon.",
                ),
                Panel(
                    "In the worker's own batch and queue",
                    "short",
                    {
                        "{{worker}} runs": f"max by (worker) (radixway_worker_running{_WORKER})",
                        "{{worker}} has waiting": f"max by (worker) (radixway_worker_waiting{_WORKER})",
                    },
                ),
                Panel(
                    "KV cache held",
                    "percentunit",
                    {"{{worker}}": f"max by (worker) (radixway_worker_kv_usage_ratio{_WORKER})"},
                ),
                Panel(
                    "GPUs",
                    "percentunit",
                    {
                        "{{worker}} {{gpu}}": f"max by (worker, gpu) (radixway_worker_gpu_utilisation_ratio{_WORKER})",
                        "{{Hostname}} {{gpu}}": "DCGM_FI_DEV_GPU_UTIL / 100",
                    },
                    "As workers tell, and NVIDIA's exporter where it is.",
                ),
                Panel(
                    "At our workers from other gateways",
                    "short",
                    {"requests": "sum(radixway_in_flight_elsewhere)"},
                ),
            ],
        ),
        Row(
            "How fast",
            [
                Panel(
                    "First token, p95",
                    "s",
                    {"{{worker}}": q(0.95, "radixway_time_to_first_token_seconds", "worker", _HERE)},
                    "Of streams, from the request's arrival at the gateway.",
                ),
                Panel(
                    "Between tokens, p95",
                    "s",
                    {"{{worker}}": q(0.95, "radixway_inter_token_seconds", "worker", _HERE)},
                ),
                Panel(
                    "Tokens made",
                    "short",
                    {
                        "{{worker}}": rate(
                            "radixway_tokens_total",
                            "worker",
                            '{worker=~"$worker", model=~"$model", kind="completion"}',
                        )
                    },
                    stacked=True,
                ),
                Panel(
                    "First tokens of streams",
                    "s",
                    {
                        "{{le}}": f"sum by (le) (increase(radixway_time_to_first_token_seconds_bucket{_HERE}[$__rate_interval]))"
                    },
                    kind="heatmap",
                    width=24,
                ),
            ],
        ),
        Row(
            "How many there should be",
            [
                Panel(
                    "Replicas",
                    "short",
                    {
                        "{{model}} {{role}}: proposed": "max by (model, role) (radixway_planner_replicas)",
                        "{{model}} {{role}}: ready": "max by (model, role) (radixway_planner_ready_replicas)",
                    },
                    width=12,
                ),
                Panel(
                    "Pressure: 1 is what the objective allows",
                    "short",
                    {"{{model}} {{role}}": "max by (model, role) (radixway_planner_pressure)"},
                    width=12,
                ),
            ],
        ),
        Row(
            "Radixway's own engine",
            [
                Panel(
                    "Batch and queue",
                    "short",
                    {
                        "{{instance}} runs": "radixway_engine_requests_running",
                        "{{instance}} waits": "radixway_engine_requests_waiting",
                    },
                ),
                Panel("KV pool held", "percentunit", {"{{instance}}": "radixway_engine_kv_usage_ratio"}),
                Panel(
                    "Prompt tokens found in the cache",
                    "percentunit",
                    {
                        "{{instance}}": "rate(radixway_engine_cached_prompt_tokens_total[$__rate_interval]) / rate(radixway_engine_prompt_tokens_total[$__rate_interval])"
                    },
                ),
                Panel(
                    "Tokens sampled",
                    "short",
                    {"{{instance}}": rate("radixway_engine_generation_tokens_total", "instance")},
                ),
                Panel(
                    "Tiers: hits and evictions",
                    "short",
                    {
                        "{{tier}} hits": rate("radixway_engine_tier_hit_tokens_total", "tier"),
                        "{{tier}} evicted": rate("radixway_engine_tier_evicted_tokens_total", "tier"),
                    },
                ),
                Panel(
                    "First token, p95",
                    "s",
                    {"{{instance}}": q(0.95, "radixway_engine_time_to_first_token_seconds", "instance")},
                ),
            ],
        ),
    ],
)
