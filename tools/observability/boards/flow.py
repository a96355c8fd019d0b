"""How requests flow through the layers, and what each takes."""

from observability.panels import Board, Panel, Row
from observability.queries import q, quantiles, rate

MODEL = '{model=~"$model"}'

FLOW = Board(
    "flow",
    "request flow",
    variables={"model": "radixway_requests_total", "surface": "radixway_requests_total"},
    rows=[
        Row(
            "At the door",
            [
                Panel(
                    "Requests by status",
                    "reqps",
                    {
                        "{{status}}": rate(
                            "radixway_requests_total", "status", '{model=~"$model", surface=~"$surface"}'
                        )
                    },
                    stacked=True,
                ),
                Panel(
                    "Requests by model",
                    "reqps",
                    {
                        "{{model}}": rate(
                            "radixway_requests_total", "model", '{model=~"$model", surface=~"$surface"}'
                        )
                    },
                ),
                Panel(
                    "Requests by surface",
                    "reqps",
                    {"{{surface}}": rate("radixway_requests_total", "surface", MODEL)},
                ),
                Panel(
                    "Errors by kind",
                    "reqps",
                    {"{{kind}}": rate("radixway_errors_total", "kind", MODEL)},
                    "The code that the client was told.",
                ),
                Panel(
                    "First byte",
                    "s",
                    quantiles("radixway_first_byte_seconds", '{model=~"$model", surface=~"$surface"}'),
                    "From a request's arrival to the first byte of its answer.",
                ),
                Panel(
                    "Whole answer",
                    "s",
                    quantiles("radixway_request_seconds", '{model=~"$model", surface=~"$surface"}'),
                    "From a request's arrival to the last byte.",
                ),
            ],
        ),
        Row(
            "What it means, where it goes",
            [
                Panel(
                    "Time of each layer, p99",
                    "s",
                    {
                        "meaning": q(0.99, "llm_model_routing_latency_seconds"),
                        "guard": q(0.99, "radixway_guard_seconds"),
                        "choice of a worker": q(0.99, "radixway_selection_seconds"),
                        "waiting for room": q(0.99, "radixway_queue_seconds"),
                    },
                ),
                Panel(
                    "Own time of each middleware, p99",
                    "s",
                    {"{{middleware}}": q(0.99, "radixway_middleware_seconds", "middleware")},
                ),
                Panel(
                    "Reading signals, p99",
                    "s",
                    {"{{classifier}}": q(0.99, "llm_classifier_latency_seconds", "classifier")},
                ),
                Panel(
                    "Categories",
                    "reqps",
                    {
                        "{{category}}": "sum by (category) (rate(llm_category_classifications_count[$__rate_interval]))"
                    },
                    "What requests for `auto` were found to be about.",
                    stacked=True,
                ),
                Panel(
                    "Models that were chosen",
                    "reqps",
                    {"{{model}}": rate("llm_routing_reason_codes_total", "model")},
                    stacked=True,
                ),
                Panel(
                    "Why they were",
                    "reqps",
                    {"{{reason_code}}": rate("llm_routing_reason_codes_total", "reason_code")},
                ),
            ],
        ),
        Row(
            "Retries, refusals and errors",
            [
                Panel("Waiting", "short", {"{{instance}}": "sum by (instance) (radixway_queued)"}),
                Panel("Waiting, how long", "s", {"p95": q(0.95, "radixway_queue_seconds", "", MODEL)}),
                Panel(
                    "Tried again, refused, broken, left",
                    "reqps",
                    {
                        "tried again: {{reason}}": rate("radixway_retries_total", "reason"),
                        "refused: {{reason}}": rate("radixway_refused_total", "reason"),
                        "broken streams": rate("radixway_broken_streams_total"),
                        "client left": rate("radixway_client_disconnects_total"),
                    },
                ),
                Panel(
                    "Another model answered",
                    "reqps",
                    {"{{model}} → {{fallback}}": rate("radixway_fallbacks_total", "model, fallback")},
                ),
                Panel("Second copies", "reqps", {"{{outcome}}": rate("radixway_hedges_total", "outcome")}),
                Panel(
                    "Other gateways",
                    "reqps",
                    {
                        "passed on": rate("radixway_passed_on_total"),
                        "did not answer": rate("radixway_passed_on_failed_total"),
                    },
                ),
                Panel(
                    "Spans",
                    "short",
                    {"{{outcome}}": rate("radixway_trace_spans_total", "outcome")},
                    "Of traces, while they are exported.",
                ),
                Panel(
                    "Event loop: how late it is",
                    "s",
                    {
                        "p99": 'max(radixway_event_loop_lag_seconds{quantile="0.99"})',
                        "longest": 'max(radixway_event_loop_lag_seconds{quantile="1"})',
                    },
                    "Over the latest minute, of the worst gateway. While it stands still, so does every request.",
                ),
            ],
        ),
    ],
)
