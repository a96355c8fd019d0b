"""Wire protocols: each turns bytes into a Request and a Reply back into bytes, and chooses no worker.

State, and the file that owns it:

- `ext_proc/answer.py`: frames Envoy waits for, one owner per request; each is answered once and in order,
  or an immediate response ends all
- `classification/lazy_service.py`: the classifiers behind the classification API, opened with the first
  question
- `chats/safety_screen.py`: the encoder that judges questions of chats, the gateway's own where it has one
- `worker_files/owner_store.py`: whose a file or batch is, where there are tenants
- `sessions/session_service.py`: the open sessions (`trajectories/sessions/session.py`)
"""

from radixway.api.admin_access import AdminAccess
from radixway.api.authorization import PathAuthorization
from radixway.api.dry_run import dry_run_routes
from radixway.api.health import health_routes
from radixway.api.openai import ModelListing, model_routes
from radixway.api.openapi import describe_raw_paths
from radixway.api.operator_routes import erasure_routes, traffic_routes, usage_routes
from radixway.api.request_handler import RequestHandler
from radixway.api.rules import semantic_routes
from radixway.api.selector import affinity_routes, selector_routes
from radixway.api.sessions import (
    SessionCallRouter,
    SessionDispatcher,
    SessionRequestHandler,
    SessionService,
    count_routes,
    session_routes,
)
from radixway.api.sglang import FleetControl, fleet_routes
from radixway.api.single_worker_calls import SingleWorkerCalls, single_worker_routes
from radixway.api.trajectories import trajectory_routes
from radixway.api.worker_loads import load_routes
from radixway.api.worker_resources import worker_resource_routes
from radixway.api.workers import registration_routes, worker_routes

__all__ = [
    "AdminAccess",
    "FleetControl",
    "ModelListing",
    "PathAuthorization",
    "RequestHandler",
    "SessionCallRouter",
    "SessionDispatcher",
    "SessionRequestHandler",
    "SessionService",
    "SingleWorkerCalls",
    "affinity_routes",
    "count_routes",
    "describe_raw_paths",
    "dry_run_routes",
    "erasure_routes",
    "fleet_routes",
    "health_routes",
    "load_routes",
    "model_routes",
    "registration_routes",
    "selector_routes",
    "semantic_routes",
    "session_routes",
    "single_worker_routes",
    "traffic_routes",
    "trajectory_routes",
    "usage_routes",
    "worker_resource_routes",
    "worker_routes",
]
