"""Which worker serves a request: registry, health, load ledger, selector, policies."""

from radixway.routing.block_index import BlockIndex, Matches, Tier
from radixway.routing.doubts import Doubts
from radixway.routing.health import HealthMonitor, Probe, ProbeFailed
from radixway.routing.ledger import Lease, Ledger
from radixway.routing.load import Load, PrefillRate
from radixway.routing.prompts import PromptReader
from radixway.routing.registry import Registry
from radixway.routing.request import RoutingRequest
from radixway.routing.reservations import AlreadyReserved, Reservations
from radixway.routing.selector import Choice, Selector
from radixway.routing.worker import Findings, Worker, WorkerState

__all__ = [
    "AlreadyReserved",
    "BlockIndex",
    "Choice",
    "Doubts",
    "Findings",
    "HealthMonitor",
    "Lease",
    "Ledger",
    "Load",
    "Matches",
    "PrefillRate",
    "Probe",
    "ProbeFailed",
    "PromptReader",
    "Registry",
    "Reservations",
    "RoutingRequest",
    "Selector",
    "Tier",
    "Worker",
    "WorkerState",
]
