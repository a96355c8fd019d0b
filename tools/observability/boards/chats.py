"""Chats: do answers end, how long do people wait, who fetches jobs."""

from observability.panels import Board, Panel, Row
from observability.queries import q, rate

_MODEL = '{model=~"$model"}'

CHATS = Board(
    "chats",
    "chats",
    variables={"model": "inference_requests_total"},
    rows=[
        Row(
            "Answers",
            [
                Panel(
                    "How they ended",
                    "reqps",
                    {"{{status}}": rate("inference_requests_total", "status", _MODEL)},
                    stacked=True,
                ),
                Panel(
                    "Whole answers",
                    "s",
                    {
                        "p50": q(0.5, "inference_latency_seconds", "", _MODEL),
                        "p99": q(0.99, "inference_latency_seconds", "", _MODEL),
                    },
                ),
                Panel(
                    "First words",
                    "s",
                    {
                        "p50": q(0.5, "inference_time_to_first_token_seconds", "", _MODEL),
                        "p99": q(0.99, "inference_time_to_first_token_seconds", "", _MODEL),
                    },
                ),
                Panel(
                    "Tokens",
                    "short",
                    {"{{model}} {{kind}}": rate("inference_tokens_total", "model, kind", _MODEL)},
                ),
                Panel(
                    "Threads that were known",
                    "reqps",
                    {"{{outcome}}": rate("radixway_chat_histories_total", "outcome")},
                ),
                Panel(
                    "Judged for safety",
                    "reqps",
                    {"{{outcome}}": rate("radixway_chat_safety_total", "outcome")},
                ),
            ],
        ),
        Row(
            "Jobs and workers",
            [
                Panel(
                    "Answers that wait for a worker",
                    "short",
                    {"{{model}}": "max by (model) (inference_queue_depth)"},
                    "In the whole database.",
                ),
                Panel("Jobs", "short", {"{{state}}": "max by (state) (radixway_chat_jobs)"}, stacked=True),
                Panel(
                    "Age of the oldest",
                    "s",
                    {"{{state}}": "max by (state) (radixway_chat_oldest_job_seconds)"},
                ),
                Panel(
                    "Workers that fetch jobs",
                    "short",
                    {"{{model}}": "max by (model) (inference_active_workers)"},
                ),
                Panel(
                    "Their GPUs",
                    "percentunit",
                    {"{{model}}": "avg by (model) (radixway_chat_gpu_utilisation_ratio)"},
                ),
                Panel(
                    "Processes hear each other",
                    "short",
                    {"over {{over}}": "min by (over) (radixway_chat_sharing)"},
                    kind="stat",
                ),
            ],
        ),
    ],
)
