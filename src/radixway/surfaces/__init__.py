"""Wire protocols: each turns bytes into a Request and a Reply back into bytes, and decides nothing."""

from radixway.surfaces.access import AdminAccess
from radixway.surfaces.admin import health_routes
from radixway.surfaces.affinity import affinity_routes
from radixway.surfaces.agents import (
    SessionCallRouter,
    SessionDispatcher,
    SessionRequestHandler,
    SessionService,
    count_routes,
    session_routes,
)
from radixway.surfaces.erasing import erasure_routes
from radixway.surfaces.exchange import RequestHandler
from radixway.surfaces.fleet import FleetControl, fleet_routes
from radixway.surfaces.gate import PathAuthorization
from radixway.surfaces.models import model_routes
from radixway.surfaces.raw_openapi import describe_raw_paths
from radixway.surfaces.registration import registration_routes
from radixway.surfaces.rehearsing import dry_run_routes
from radixway.surfaces.selector import selector_routes
from radixway.surfaces.semantic import semantic_routes
from radixway.surfaces.sglang import sglang_routes
from radixway.surfaces.traffic import traffic_routes
from radixway.surfaces.trajectories import trajectory_routes
from radixway.surfaces.usage import usage_routes
from radixway.surfaces.workers import worker_routes

__all__ = [
    "AdminAccess",
    "FleetControl",
    "PathAuthorization",
    "RequestHandler",
    "SessionCallRouter",
    "SessionDispatcher",
    "SessionRequestHandler",
    "SessionService",
    "affinity_routes",
    "count_routes",
    "describe_raw_paths",
    "dry_run_routes",
    "erasure_routes",
    "fleet_routes",
    "health_routes",
    "model_routes",
    "registration_routes",
    "selector_routes",
    "semantic_routes",
    "session_routes",
    "sglang_routes",
    "traffic_routes",
    "trajectory_routes",
    "usage_routes",
    "worker_routes",
]
