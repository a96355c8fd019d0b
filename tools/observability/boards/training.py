"""RL: recorded trajectories, and how new the weights are that answer."""

from observability.panels import Board, Panel, Row
from observability.queries import q, rate

_HIT = '{result="hit"}'

TRAINING = Board(
    "training",
    "RL and trajectories",
    variables={"model": "radixway_requests_total"},
    rows=[
        Row(
            "Trajectories",
            [
                Panel(
                    "Texts that were known already",
                    "percentunit",
                    {
                        "hits": f"{rate('radixway_trajectory_lookups_total', '', _HIT)} / {rate('radixway_trajectory_lookups_total')}"
                    },
                ),
                Panel(
                    "Prompt tokens that were not tokenized again",
                    "percentunit",
                    {
                        "reused": f"{rate('radixway_trajectory_reused_tokens_total')} / {rate('radixway_trajectory_prompt_tokens_total')}"
                    },
                ),
                Panel(
                    "Lookups",
                    "reqps",
                    {"{{result}}": rate("radixway_trajectory_lookups_total", "result")},
                    stacked=True,
                ),
                Panel("Entries of the store", "short", {"{{instance}}": "radixway_trajectory_entries"}),
                Panel("Tokens in it", "short", {"{{instance}}": "radixway_trajectory_tokens"}),
                Panel("What it takes", "bytes", {"{{instance}}": "radixway_trajectory_bytes"}),
            ],
        ),
        Row(
            "Rollouts",
            [
                Panel(
                    "Requests of /generate and of sessions",
                    "reqps",
                    {
                        "{{surface}}": rate(
                            "radixway_requests_total",
                            "surface",
                            '{surface=~"generate|session.*", model=~"$model"}',
                        )
                    },
                ),
                Panel(
                    "Whole rollouts",
                    "s",
                    {
                        "p50": q(
                            0.5,
                            "radixway_request_seconds",
                            "",
                            '{surface=~"generate|session.*", model=~"$model"}',
                        ),
                        "p99": q(
                            0.99,
                            "radixway_request_seconds",
                            "",
                            '{surface=~"generate|session.*", model=~"$model"}',
                        ),
                    },
                ),
                Panel("Workers that wait for weights", "short", {"{{instance}}": "radixway_workers_stale"}),
            ],
        ),
    ],
)
