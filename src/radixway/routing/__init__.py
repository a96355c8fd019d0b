"""Chooses the worker that serves a request and brings the request there.

Where the worker is chosen: `transports/admission.py` finds the candidates (ready, allowed, with capacity),
`selector.py` has the model's policy score them, `policies/` has one file per policy.

Where a request is tried again, from the inside out:

    transports/disaggregated_dispatch.py   the decode worker alone, when its prefill worker hands nothing on
    transports/hedged_dispatch.py          a copy at a second worker, when the first byte is late
    transports/dispatch.py                 a fallback model, when no worker of the model can answer
    core/pipeline/retry.py                 another worker, when one fails before the first byte
    trajectories/abort_policy.py           an answer that its worker aborted: resumed, or asked for again
    semantics/decisions/middleware.py      the decision's next model, when no worker can serve the first
    cluster/session_ownership/             this gateway, when the one that owns a conversation is away
    chat/job_queue.py                      a chat answer whose attempt failed or lost its lease: queued again

State, and the file that owns it:

- `worker_registry.py`: workers and their states; only the health monitor, admin calls and
  `fleet_membership.py` change it
- `fleet_membership.py`: the set of workers per source, applied as a difference; a worker that no source
  names is removed once idle; `check()`
- `block_index.py`: the blocks each worker holds, from `kv_events/`; batches apply once and in order, else
  the worker counts as `degraded` and only sent prompts are assumed (`recent_blocks.py`)
- `load_ledger.py`: requests in flight per worker; a `WorkerLease` begins before the connect and is released
  on every way out; those taken over HTTP end by `/free`, by their time, or when the gateway stops. It also
  learns each worker's prefill rate from first tokens (not exact)
- `fleet_breakers.py`: failures per worker; the dispatcher reports the end of every attempt
- `weight_versions.py`: versions of workers' weights and the expected one; `check()` compares who waits with
  why
- `tokenizer_registry.py`: tokens of prompts by digest, bounded in bytes; `check()` recounts
- `policies/session.py`: each session's worker; bounded, expires, forgotten with its worker;
  `check()` recounts
- `transports/admission.py`: requests that wait, in the order of `request_queue.py`; every release of a
  lease serves them
- `transports/disaggregated_dispatch.py`: prefills for other workers; both leases are released on every way
  out
- `transports/traffic_feed.py`: followers of the traffic; one leaves when its connection ends, when it is
  too slow, or when the gateway stops
- `simulator/job_queue.py`: simulations, a process each, one at a time; ended by time, by their client or
  with the gateway
"""

from radixway.routing.block_index import BlockIndex
from radixway.routing.circuit_breaker import BreakerState
from radixway.routing.engine_metrics import EngineMetrics
from radixway.routing.fleet_membership import API, CONFIG, REGISTERED, DiscoveredWorker, FleetMembership
from radixway.routing.health_monitor import HealthMonitor
from radixway.routing.load_ledger import (
    AlreadyReservedError,
    LeaseReservations,
    LoadLedger,
    TooManyReservationsError,
    WorkerLease,
)
from radixway.routing.pair_selector import PairChoice
from radixway.routing.prompt_reader import PromptReader
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
from radixway.routing.worker import KvEventsState, Worker, WorkerState
from radixway.routing.worker_load import LoadShare, WorkerLoad
from radixway.routing.worker_registry import WorkerRegistry

__all__ = [
    "API",
    "CONFIG",
    "DEFAULT_MODEL",
    "REGISTERED",
    "AlreadyReservedError",
    "BlockIndex",
    "BreakerState",
    "DefaultModelResolver",
    "DiscoveredWorker",
    "EngineMetrics",
    "FleetMembership",
    "HealthMonitor",
    "KvEventsState",
    "LeaseReservations",
    "LoadLedger",
    "LoadShare",
    "ModelTokenizerLookup",
    "ModelWorkers",
    "PairChoice",
    "PromptReader",
    "RoutingRequest",
    "Selector",
    "TokenizerRegistry",
    "TooManyReservationsError",
    "WeightVersionTracker",
    "Worker",
    "WorkerChoice",
    "WorkerLease",
    "WorkerLoad",
    "WorkerRegistry",
    "WorkerState",
    "find_model_state",
    "parse_version",
]
