"""What the guard found and did, and whether that is written down."""

from observability.panels import Board, Panel, Row
from observability.queries import q, rate

SECURITY = Board(
    "security",
    "security",
    variables={"model": "radixway_requests_total"},
    rows=[
        Row(
            "Requests",
            [
                Panel(
                    "What the guard did",
                    "reqps",
                    {"{{guard}}: {{action}}": rate("radixway_guard_actions_total", "guard, action")},
                    stacked=True,
                ),
                Panel(
                    "Share that is blocked",
                    "percentunit",
                    {"blocked": "radixway:blocked:ratio15m"},
                ),
                Panel(
                    "Refused, by reason",
                    "reqps",
                    {"{{reason}}": rate("llm_request_errors_total", "reason", '{model=~"$model"}')},
                ),
                Panel(
                    "Personal data that a model may not be shown",
                    "reqps",
                    {"{{pii_type}}": rate("llm_pii_violations_total", "pii_type", '{model=~"$model"}')},
                    stacked=True,
                ),
                Panel(
                    "Reading a request, p99", "s", {"{{guard}}": q(0.99, "radixway_guard_seconds", "guard")}
                ),
                Panel(
                    "Could not be read", "reqps", {"{{guard}}": rate("radixway_guard_errors_total", "guard")}
                ),
            ],
        ),
        Row(
            "Answers",
            [
                Panel(
                    "Answers in which something was found",
                    "reqps",
                    {"{{rule}}: {{action}}": rate("radixway_guard_answers_total", "rule, action")},
                    stacked=True,
                    width=12,
                ),
                Panel(
                    "Answers that a rule could not judge",
                    "reqps",
                    {"{{rule}}: {{outcome}}": rate("radixway_guard_answer_errors_total", "rule, outcome")},
                    width=12,
                ),
            ],
        ),
        Row(
            "The audit log, and who may not",
            [
                Panel("Entries", "reqps", {"{{outcome}}": rate("radixway_audit_entries_total", "outcome")}),
                Panel("Cannot be written", "short", {"failing": "max(radixway_audit_failing)"}, kind="stat"),
                Panel(
                    "No key, or not for this",
                    "reqps",
                    {"{{status}}": rate("radixway_requests_total", "status", '{status=~"401|403"}')},
                ),
                Panel(
                    "Chats judged for safety",
                    "reqps",
                    {"{{outcome}}": rate("radixway_chat_safety_total", "outcome")},
                ),
            ],
        ),
    ],
)
