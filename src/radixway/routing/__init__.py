"""Which worker serves a request: registry, health, load ledger, selector, policies."""

from radixway.routing.block_index import BlockIndex, Matches, Tier
from radixway.routing.breaker import Breaker, BreakerState
from radixway.routing.breakers import Breakers
from radixway.routing.default_model import DEFAULT_MODEL, DefaultModel
from radixway.routing.health import HealthMonitor, Probe, ProbeFailed
from radixway.routing.hedging import Hedging
from radixway.routing.ledger import Lease, Ledger
from radixway.routing.limits import Limits
from radixway.routing.load import Load, PrefillRate, Share
from radixway.routing.membership import API, CONFIG, REGISTERED, Found, Membership
from radixway.routing.model_state import WorkersOfModel, state_of_model
from radixway.routing.model_tokenizers import ModelTokenizers
from radixway.routing.pairs import PairChoice, Pairs
from radixway.routing.prompts import PromptReader, Reads
from radixway.routing.queue import RequestQueue, Waiting
from radixway.routing.registry import Registry
from radixway.routing.reports import Report, read_report
from radixway.routing.request import RoutingRequest
from radixway.routing.reservations import AlreadyReserved, Reservations, TooManyReserved
from radixway.routing.selector import Choice, Selector
from radixway.routing.tokenizers import Tokenizers
from radixway.routing.weights import WeightVersions, read_version
from radixway.routing.worker import (
    ErrorKind,
    Findings,
    KvEventsState,
    KvEventsStatus,
    Worker,
    WorkerState,
)

__all__ = [
    "API",
    "CONFIG",
    "DEFAULT_MODEL",
    "REGISTERED",
    "AlreadyReserved",
    "BlockIndex",
    "Breaker",
    "BreakerState",
    "Breakers",
    "Choice",
    "DefaultModel",
    "ErrorKind",
    "Findings",
    "Found",
    "HealthMonitor",
    "Hedging",
    "KvEventsState",
    "KvEventsStatus",
    "Lease",
    "Ledger",
    "Limits",
    "Load",
    "Matches",
    "Membership",
    "ModelTokenizers",
    "PairChoice",
    "Pairs",
    "PrefillRate",
    "Probe",
    "ProbeFailed",
    "PromptReader",
    "Reads",
    "Registry",
    "Report",
    "RequestQueue",
    "Reservations",
    "RoutingRequest",
    "Selector",
    "Share",
    "Tier",
    "Tokenizers",
    "TooManyReserved",
    "Waiting",
    "WeightVersions",
    "Worker",
    "WorkerState",
    "WorkersOfModel",
    "read_report",
    "read_version",
    "state_of_model",
]
