"""Which worker serves a request: registry, health, load ledger, selector, policies."""

from radixway.routing.block_index import BlockIndex, PrefixMatches, StorageTier
from radixway.routing.circuit_breaker import BreakerState, CircuitBreaker
from radixway.routing.circuit_breakers import CircuitBreakers
from radixway.routing.engine_metrics import EngineMetrics, parse_engine_metrics
from radixway.routing.fleet_membership import API, CONFIG, REGISTERED, DiscoveredWorker, FleetMembership
from radixway.routing.health_monitor import HealthMonitor, ProbeError, WorkerProbe
from radixway.routing.hedge_budget import HedgeBudget
from radixway.routing.load_ledger import LoadLedger, WorkerLease
from radixway.routing.pair_selector import PairChoice, PairSelector
from radixway.routing.prompt_reader import PromptNeeds, PromptReader
from radixway.routing.request_queue import QueuedRequest, RequestQueue
from radixway.routing.reservations import AlreadyReservedError, LeaseReservations, TooManyReservationsError
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.selector import Selector, WorkerChoice
from radixway.routing.served_models import (
    DEFAULT_MODEL,
    DefaultModelResolver,
    ModelTokenizerLookup,
    ModelWorkers,
    find_model_state,
)
from radixway.routing.tokenizer_registry import TokenizerRegistry
from radixway.routing.weight_versions import WeightVersionTracker, parse_version
from radixway.routing.worker import ErrorKind, KvEventsState, KvEventsStatus, ServerInfo, Worker, WorkerState
from radixway.routing.worker_limits import WorkerLimits
from radixway.routing.worker_load import LoadShare, PrefillRate, WorkerLoad
from radixway.routing.worker_registry import WorkerRegistry

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
