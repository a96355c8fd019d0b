"""What FastAPI serves of a gateway: everything but completions and agents' calls, which are served raw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fastapi import APIRouter

from radixway.api import (
    FleetControl,
    affinity_routes,
    count_routes,
    dry_run_routes,
    erasure_routes,
    fleet_routes,
    health_routes,
    model_routes,
    registration_routes,
    selector_routes,
    semantic_routes,
    session_routes,
    sglang_routes,
    traffic_routes,
    trajectory_routes,
    usage_routes,
    worker_routes,
)
from radixway.api.asgi_middlewares import SlimeRouter
from radixway.api.chats import disabled_routes
from radixway.api.classification import classification_routes
from radixway.api.prefixes import PrefixSources, prefix_routes
from radixway.api.requests import request_routes
from radixway.api.simulations import simulation_routes
from radixway.cluster.planner import build_plan_routes
from radixway.core.tenants import PriceList
from radixway.gateway.components import GatewayParts


def gateway_routes(parts: GatewayParts, router: SlimeRouter) -> Iterator[APIRouter]:
    """Yield the routers, in the order in which paths are looked up. `router`: tells of an attached tree."""
    config, gate, registry = parts.config, parts.gate, parts.registry
    reading, road = parts.reading, parts.road
    yield erasure_routes(parts.erasure, gate.access)
    yield health_routes(registry, parts.metrics, _reports(parts), router.cache_stats, gate)
    yield model_routes(registry, reading.model_names, gate.tenant_policy_of)
    yield worker_routes(registry, parts.membership, road.health, gate.workers_access)
    yield registration_routes(registry, parts.registrations, road.health, gate.workers_access)
    yield sglang_routes(registry, road.transport)
    fleet = FleetControl(registry, road.fan_out, road.weights, parts.in_hand, parts.aborted)
    yield fleet_routes(fleet, gate.access)
    yield affinity_routes(road.selector)
    yield trajectory_routes(parts.tries, parts.tokenizer_of)
    yield session_routes(parts.sessions, gate.access)
    yield count_routes(parts.sessions, gate)
    yield selector_routes(registry, road.selector, road.prompts, road.reservations, gate.access)
    yield traffic_routes(parts.traffic, gate.access)
    yield usage_routes(parts.tenants, gate.visible_tenant)
    yield build_plan_routes(parts.planner)
    yield semantic_routes(reading.semantic, parts.journals, gate, parts.audit)
    yield dry_run_routes(reading.middlewares(), registry, road, gate.access)
    if parts.cache is not None:
        from radixway.api.semantic_cache import cache_routes

        yield cache_routes(parts.cache, parts.journals, gate)
    prices = PriceList(config.tenants.pricing, reading.model_pricing)
    yield request_routes(parts.journals, prices.cost_of, gate, config.console.trace_url)
    shown = config.console.show_prompts
    yield prefix_routes(
        PrefixSources(parts.journals, registry, road.selector, road.transport, parts.tries, shows_text=shown),
        gate.access,
    )
    yield simulation_routes(config.simulations, parts.simulations, parts.journals, gate.access)
    yield from classification_routes(parts.classification, reading.semantic, gate.access, parts.metrics)
    if parts.chats is None:
        yield disabled_routes()


def _reports(parts: GatewayParts) -> dict[str, Callable[[], Any]]:
    """How each component is, for `/health`, and what else is to be said there."""
    reports: dict[str, Callable[[], Any]] = {"chats": lambda: None}
    reports |= {each.name: each.describe for each in parts.components}
    return reports | ({"unshared": lambda: parts.unshared} if parts.unshared else {})
