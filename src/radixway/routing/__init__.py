"""Which worker serves a request: registry, health, load ledger, selector, policies."""

from radixway.routing.doubts import Doubts
from radixway.routing.health import HealthMonitor, Probe, ProbeFailed
from radixway.routing.ledger import Lease
from radixway.routing.registry import Registry
from radixway.routing.selector import Choice, Selector
from radixway.routing.worker import Findings, Load, Worker, WorkerState

__all__ = [
    "Choice",
    "Doubts",
    "Findings",
    "HealthMonitor",
    "Lease",
    "Load",
    "Probe",
    "ProbeFailed",
    "Registry",
    "Selector",
    "Worker",
    "WorkerState",
]
