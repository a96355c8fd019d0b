"""The FastAPI routers of a gateway: every path but those of `InferenceRoutes`."""

from collections.abc import Callable, Iterator
from typing import Any

from fastapi import APIRouter

from radixway.api import (
    FleetControl,
    ModelListing,
    SingleWorkerCalls,
    affinity_routes,
    count_routes,
    dry_run_routes,
    erasure_routes,
    fleet_routes,
    health_routes,
    load_routes,
    model_routes,
    registration_routes,
    selector_routes,
    semantic_routes,
    session_routes,
    single_worker_routes,
    traffic_routes,
    trajectory_routes,
    usage_routes,
    worker_resource_routes,
    worker_routes,
)
from radixway.api.asgi_middlewares import SlimeRouter
from radixway.api.audit import audit_routes
from radixway.api.chats import disabled_routes
from radixway.api.classification import classification_routes
from radixway.api.keys import key_routes, keys_off_routes, litellm_routes
from radixway.api.prefixes import PrefixSources, prefix_routes
from radixway.api.requests import request_routes
from radixway.api.selector import WorkerChooser
from radixway.api.simulations import simulation_routes
from radixway.api.worker_files import file_routes, response_routes
from radixway.cluster.planner import build_plan_routes
from radixway.core.tenants import PriceList
from radixway.gateway.components import GatewayParts


def gateway_routes(parts: GatewayParts, router: SlimeRouter) -> Iterator[APIRouter]:
    """Yield the routers, in the order in which paths are looked up.

    `router` has the statistics of an attached tree.
    """
    config, authorization, registry = parts.config, parts.authorization, parts.registry
    semantics, upstream = parts.semantics, parts.upstream
    yield erasure_routes(parts.erasure, authorization.access)
    yield health_routes(registry, parts.metrics, _reports(parts), router.cache_stats, authorization)
    listing = ModelListing(registry, parts.models, semantics.model_names)
    yield model_routes(listing, authorization.tenant_policy_of)
    yield worker_routes(registry, parts.membership, upstream.health, authorization.workers_access)
    yield registration_routes(registry, parts.registrations, upstream.health, authorization.workers_access)
    yield worker_resource_routes(
        registry, parts.membership, parts.registrations, upstream.health, authorization.workers_access
    )
    yield load_routes(registry, upstream.poll_engines)
    yield single_worker_routes(
        SingleWorkerCalls(registry, upstream.transport, parts.models, authorization.tenant_policy_of)
    )
    yield file_routes(parts.files, authorization.tenant_policy_of)
    fleet = FleetControl(registry, upstream.fan_out, upstream.weights, parts.in_hand, parts.aborted)
    yield fleet_routes(fleet, authorization.access)
    yield affinity_routes(upstream.selector)
    yield trajectory_routes(parts.tries, parts.tokenizer_of)
    yield session_routes(parts.sessions, authorization.access)
    yield count_routes(parts.sessions, authorization)
    chooser = WorkerChooser(registry, upstream.selector, upstream.prompts)
    yield selector_routes(chooser, upstream.selector, upstream.reservations, authorization.access)
    yield traffic_routes(parts.traffic, authorization.access)
    yield usage_routes(parts.tenants, authorization.visible_tenant)
    if parts.access is None:
        yield keys_off_routes(authorization.access)
    else:
        yield key_routes(parts.access, authorization.access)
        yield from litellm_routes(parts.access, authorization.access, authorization.callers.known_key_of)
    yield build_plan_routes(parts.planner)
    yield semantic_routes(semantics.semantic, parts.journals, authorization, parts.audit)
    yield audit_routes(parts.audit, authorization.access)
    yield dry_run_routes(semantics.middlewares(), chooser, authorization.access)
    if parts.cache is not None:
        from radixway.api.semantic_cache import cache_routes

        yield cache_routes(parts.cache, parts.journals, authorization, shows_text=config.console.show_prompts)
    prices = PriceList(config.tenants.pricing, semantics.model_pricing)
    yield request_routes(parts.journals, prices.cost_of, authorization, config.console.trace_url)
    shown = config.console.show_prompts
    yield prefix_routes(
        PrefixSources(
            parts.journals, registry, upstream.selector, upstream.transport, parts.tries, shows_text=shown
        ),
        authorization.access,
    )
    yield simulation_routes(config.simulations, parts.simulations, parts.journals, authorization.access)
    yield from classification_routes(
        parts.classification, semantics.semantic, authorization.access, parts.metrics
    )
    if parts.chats is None:
        yield response_routes(parts.files, authorization.tenant_policy_of)
        yield disabled_routes()


def _reports(parts: GatewayParts) -> dict[str, Callable[[], Any]]:
    """Return each component's report for `/health`, and additional fields."""
    reports: dict[str, Callable[[], Any]] = {"chats": lambda: None}
    reports |= {component.name: component.describe for component in parts.components}
    return reports | ({"unshared": lambda: parts.unshared} if parts.unshared else {})
