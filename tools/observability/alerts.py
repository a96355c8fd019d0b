"""Alerts: their conditions, and what they tell the person on call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from observability import thresholds as at
from observability.queries import enough

PAGE = "docs/troubleshooting.md"
"""Each alert has a section there, called as `anchor` says."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `means` says what the number is, `look` where to look first."""

    name: str
    severity: str
    expr: str
    lasts: str
    means: str
    look: str

    @property
    def anchor(self) -> str:
        """Its name in kebab case."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", self.name).lower()

    def rule(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasts,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.means,
                "description": self.look,
                "runbook_url": f"{PAGE}#{self.anchor}",
            },
        }


ALERTS = (
    # Latency
    Alert(
        "RadixwayUnderstandingIsSlow",
        "warning",
        f"radixway:understanding_seconds:p99_5m > {at.UNDERSTANDING_P99_S}",
        "10m",
        "Deciding what requests mean takes {{ $value | humanizeDuration }} (p99).",
        "The encoder is short of CPU, or many long texts come at once: llm_classifier_latency_seconds says which signal.",
    ),
    Alert(
        "RadixwayRoutingIsSlow",
        "warning",
        f"radixway:selection_seconds:p99_5m > {at.ROUTING_P99_S}",
        "10m",
        "Choosing a worker takes {{ $value | humanizeDuration }} (p99), time in the queue not included.",
        "The gateway's process is short of CPU, or prompts are tokenized again: radixway_middleware_seconds has each step.",
    ),
    Alert(
        "RadixwayFirstBytesAreLate",
        "critical",
        f"radixway:first_byte_seconds:p99_5m > {at.FIRST_BYTE_P99_S} {enough('5m')}",
        "5m",
        "First bytes of {{ $labels.model }} take {{ $value | humanizeDuration }} (p99).",
        "Workers are behind (radixway_queued, radixway_worker_waiting), or prefixes are not found where requests go.",
    ),
    Alert(
        "RadixwayAnswersAreLate",
        "critical",
        f"radixway:request_seconds:p99_5m > {at.ANSWER_P99_S} {enough('5m')}",
        "10m",
        "Answers of {{ $labels.model }} take {{ $value | humanizeDuration }} to their last byte (p99).",
        "Decoding is slow (radixway_inter_token_seconds), or answers are longer than they were (radixway_tokens_total).",
    ),
    # Caches
    Alert(
        "RadixwaySemanticCacheMisses",
        "warning",
        f"radixway:semantic_hits:ratio1h < {at.SEMANTIC_HITS} {enough('1h')}",
        "1h",
        "The semantic cache answers {{ $value | humanizePercentage }} of what it is asked.",
        "Questions do not repeat, or are judged different: radixway_cache_refused_total and radixway_cache_not_kept_total say why.",
    ),
    Alert(
        "RadixwayPrefixesAreNotReused",
        "warning",
        f'radixway:prefix_hits:ratio1h{{by="reported"}} < {at.PREFIX_HITS} {enough("1h")}',
        "1h",
        "Workers of {{ $labels.model }} have {{ $value | humanizePercentage }} of prompts' tokens in their KV caches.",
        "Prompts begin differently each time, caches are too small, or requests are spread: see /prefixes and /explain.",
    ),
    Alert(
        "RadixwayPredictionsAreOff",
        "warning",
        'radixway:prefix_hits:ratio1h{by="predicted"} - ignoring (by) radixway:prefix_hits:ratio1h{by="reported"}'
        f" > {at.PREDICTION_ERROR} {enough('1h')}",
        "30m",
        "The gateway expects {{ $value | humanizePercentage }} more of {{ $labels.model }}'s prompt tokens in caches than workers report.",
        "Workers evict blocks and the gateway is not told: let them publish KV events, and look at radixway_kv_event_workers.",
    ),
    Alert(
        "RadixwayKvEventsAreDegraded",
        "warning",
        'sum(radixway_kv_event_workers{state="degraded"}) > 0',
        "10m",
        "KV events of {{ $value }} workers are incomplete; the gateway estimates what they hold.",
        "A publisher was too fast, restarted, or has no replay: /health names the workers.",
    ),
    # Security
    Alert(
        "RadixwayGuardBlocksMuch",
        "warning",
        f"radixway:blocked:ratio15m > {at.BLOCKED} {enough('15m')}",
        "15m",
        "{{ $value | humanizePercentage }} of requests are blocked.",
        "There is an attack, or a rule is too strict: the audit log says whose and which.",
    ),
    Alert(
        "RadixwayGuardCannotRead",
        "warning",
        "sum by (guard) (increase(radixway_guard_errors_total[10m])) > 0",
        "5m",
        "The guard ({{ $labels.guard }}) could not read {{ $value | humanize }} requests in ten minutes.",
        "Its model could not be loaded, or fails: /health says why. `on_error` of its section decides what passes meanwhile.",
    ),
    Alert(
        "RadixwayAuditCannotWrite",
        "critical",
        "max(radixway_audit_failing) > 0",
        "1m",
        "The audit log cannot be written.",
        "The disk is full, or the gateway may not write the file: /health has the system's error.",
    ),
    # Errors
    Alert(
        "RadixwayErrors",
        "critical",
        f"radixway:errors:ratio5m > {at.ERRORS} {enough('5m')}",
        "5m",
        "{{ $value | humanizePercentage }} of requests end with a server error.",
        "radixway_errors_total has the kinds; /requests?flags=error the latest, and /explain one of them.",
    ),
    Alert(
        "RadixwayRetriesAreMany",
        "warning",
        f"radixway:retried:ratio5m > {at.RETRIED} {enough('5m')}",
        "10m",
        "{{ $value | humanizePercentage }} of requests are tried again.",
        "A worker fails before its first byte: radixway_worker_requests_total has outcomes by worker.",
    ),
    Alert(
        "RadixwayStreamsBreak",
        "warning",
        f"radixway:broken:ratio5m > {at.BROKEN} {enough('5m')}",
        "5m",
        "{{ $value | humanizePercentage }} of requests' streams are cut by their workers.",
        "A worker dies while it answers: out of memory, or restarted without being drained.",
    ),
    Alert(
        "RadixwayRefuses",
        "warning",
        f"radixway:refused:ratio5m > {at.REFUSED} {enough('5m')}",
        "5m",
        "{{ $value | humanizePercentage }} of requests are refused because workers are busy.",
        "There are too few workers for the load, or the queue is short: GET /plan, routing.queue.",
    ),
    # Workers
    Alert(
        "RadixwayIsDown",
        "critical",
        'up{job="radixway"} == 0',
        "1m",
        "The gateway {{ $labels.instance }} does not answer.",
        "Its process has ended, or its machine cannot be reached.",
    ),
    Alert(
        "RadixwayHasNoWorkers",
        "critical",
        "radixway_workers_ready == 0",
        "2m",
        "The gateway {{ $labels.instance }} has no worker that can answer.",
        "radixway workers list, or /list_workers, has each worker's last error.",
    ),
    Alert(
        "RadixwayWorkersAreDown",
        "warning",
        'max by (worker) (radixway_worker_state{state="down"}) > 0',
        "5m",
        "The worker {{ $labels.worker }} fails its health checks.",
        "/list_workers has its last error; its own log says more.",
    ),
    Alert(
        "RadixwayBreakersAreOpen",
        "warning",
        "max by (worker) (radixway_breaker) == 1",
        "5m",
        "The worker {{ $labels.worker }} passes its health checks and fails requests.",
        "radixway_worker_requests_total has its outcomes; routing.breaker when it is tried again.",
    ),
    Alert(
        "RadixwayQueueIsDeep",
        "warning",
        f"radixway_queued > {at.QUEUED}",
        "5m",
        "{{ $value }} requests wait for a worker in {{ $labels.instance }}.",
        "There are more requests than workers can take: add workers, follow the planner, or refuse earlier (routing.queue).",
    ),
    Alert(
        "RadixwayNeedsReplicas",
        "warning",
        "radixway_planner_replicas > radixway_planner_ready_replicas",
        "15m",
        "The planner wants {{ $value }} replicas of {{ $labels.model }} ({{ $labels.role }}); there are fewer.",
        "They cannot be started: the cluster is full, or nothing follows GET /plan.",
    ),
    Alert(
        "RadixwayGpusAreIdle",
        "warning",
        f"radixway:gpu_utilisation:avg30m < {at.GPU_LOW}",
        "30m",
        "The GPU of {{ $labels.worker }} is {{ $value | humanizePercentage }} busy.",
        "There are more workers than requests need, or requests do not reach this one: radixway_worker_in_flight.",
    ),
    Alert(
        "RadixwayGpusAreFull",
        "warning",
        f"radixway:gpu_utilisation:avg30m > {at.GPU_HIGH}",
        "30m",
        "The GPU of {{ $labels.worker }} is {{ $value | humanizePercentage }} busy.",
        "A burst would have to wait: see the queue, first tokens, and GET /plan.",
    ),
    # Chats
    Alert(
        "RadixwayChatsWait",
        "warning",
        f'max(radixway_chat_oldest_job_seconds{{state="ready"}}) > {at.CHAT_WAITS_S}',
        "2m",
        "The oldest chat message has waited {{ $value | humanizeDuration }} for a worker.",
        "No worker of its model is connected (inference_active_workers), or they are busy.",
    ),
    Alert(
        "RadixwayChatsFail",
        "warning",
        f"radixway:chat_failures:ratio15m > {at.CHAT_FAILURES} and on () sum(increase(inference_requests_total[15m])) >= 20",
        "5m",
        "{{ $value | humanizePercentage }} of chats' answers were aborted or took too long.",
        "inference_requests_total has how they ended; the workers' logs say why.",
    ),
    # What stands around it
    Alert(
        "RadixwayDiscoveryFails",
        "warning",
        "min by (source) (radixway_discovery_up) == 0",
        "5m",
        "The source of workers {{ $labels.source }} fails; the workers that it named last stay.",
        "The name server or the cluster's API does not answer, or may not be asked: /health says which.",
    ),
    Alert(
        "RadixwayGatewaysLoseTouch",
        "warning",
        "min(radixway_load_sync_up) == 0 or min(radixway_tenant_limits_shared) == 0 or min(radixway_chat_sharing) == 0",
        "5m",
        "A gateway does not hear from the others; it uses its own loads, limits or chats meanwhile.",
        "Valkey, PostgreSQL or the network between gateways cannot be reached: /health says which.",
    ),
    Alert(
        "RadixwayCollectorIsDown",
        "warning",
        'up{job="otel-collector"} == 0',
        "5m",
        "The collector {{ $labels.instance }} does not answer; traces are lost.",
        "Requests are not affected. Its own log says why.",
    ),
    Alert(
        "RadixwaySpansAreLost",
        "warning",
        'sum(increase(radixway_trace_spans_total{outcome!="exported"}[10m])) > 0',
        "10m",
        "{{ $value | humanize }} spans were lost in ten minutes.",
        "The collector is slow or cannot be reached: telemetry.tracing names it.",
    ),
)


def alert_group() -> dict[str, Any]:
    """As Prometheus reads them."""
    return {"name": "radixway", "rules": [alert.rule() for alert in ALERTS]}
