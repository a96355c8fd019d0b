"""Which worker serves a request: registry, health, load ledger, selector, policies."""

from radixway.routing.block_index import BlockIndex, PrefixMatches, StorageTier
from radixway.routing.breaker import BreakerState, CircuitBreaker
from radixway.routing.breakers import CircuitBreakers
from radixway.routing.default_model import DEFAULT_MODEL, DefaultModelResolver
from radixway.routing.health import HealthMonitor, ProbeError, WorkerProbe
from radixway.routing.hedging import HedgeBudget
from radixway.routing.ledger import LoadLedger, WorkerLease
from radixway.routing.limits import WorkerLimits
from radixway.routing.load import LoadShare, PrefillRate, WorkerLoad
from radixway.routing.membership import API, CONFIG, REGISTERED, DiscoveredWorker, FleetMembership
from radixway.routing.model_state import ModelWorkers, find_model_state
from radixway.routing.model_tokenizers import ModelTokenizerLookup
from radixway.routing.pairs import PairChoice, PairSelector
from radixway.routing.prompts import PromptNeeds, PromptReader
from radixway.routing.queue import QueuedRequest, RequestQueue
from radixway.routing.registry import WorkerRegistry
from radixway.routing.reports import EngineMetrics, parse_engine_metrics
from radixway.routing.request import RoutingRequest
from radixway.routing.reservations import AlreadyReservedError, LeaseReservations, TooManyReservationsError
from radixway.routing.selector import Selector, WorkerChoice
from radixway.routing.tokenizers import TokenizerRegistry
from radixway.routing.weights import WeightVersionTracker, parse_version
from radixway.routing.worker import ErrorKind, KvEventsState, KvEventsStatus, ServerInfo, Worker, WorkerState

__all__ = [
    "API",
    "CONFIG",
    "DEFAULT_MODEL",
    "REGISTERED",
    "AlreadyReservedError",
    "BlockIndex",
    "BreakerState",
    "CircuitBreaker",
    "CircuitBreakers",
    "DefaultModelResolver",
    "DiscoveredWorker",
    "EngineMetrics",
    "ErrorKind",
    "FleetMembership",
    "HealthMonitor",
    "HedgeBudget",
    "KvEventsState",
    "KvEventsStatus",
    "LeaseReservations",
    "LoadLedger",
    "LoadShare",
    "ModelTokenizerLookup",
    "ModelWorkers",
    "PairChoice",
    "PairSelector",
    "PrefillRate",
    "PrefixMatches",
    "ProbeError",
    "PromptNeeds",
    "PromptReader",
    "QueuedRequest",
    "RequestQueue",
    "RoutingRequest",
    "Selector",
    "ServerInfo",
    "StorageTier",
    "TokenizerRegistry",
    "TooManyReservationsError",
    "WeightVersionTracker",
    "Worker",
    "WorkerChoice",
    "WorkerLease",
    "WorkerLimits",
    "WorkerLoad",
    "WorkerProbe",
    "WorkerRegistry",
    "WorkerState",
    "find_model_state",
    "parse_engine_metrics",
    "parse_version",
]
