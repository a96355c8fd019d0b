"""What is served raw: the declared endpoints, those of sessions too. All other paths are FastAPI's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radixway.config import Config
from radixway.guard.audit import AuditRoom
from radixway.pipeline import ENDPOINTS, AbortedRequests, Endpoint, Middleware, Pipeline
from radixway.road import Road
from radixway.surfaces import (
    AgentCalls,
    AgentExchange,
    AgentRoad,
    Exchange,
    SessionKeeper,
)
from radixway.surfaces.wires import Wire
from radixway.telemetry import Metrics
from radixway.tenants import Prices, TenantsRoom
from radixway.trajectories import RadixTreeMiddleware, ResumeAborted
from radixway.understanding import Understanding
from radixway.web import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Along:
    """What stands along the road of a raw request, beside what reads it; None: the gateway has none."""

    middlewares: Sequence[Middleware]
    """Those configured, in their order."""
    recorder: RadixTreeMiddleware | None
    """One of them, if trajectories are recorded."""
    tenants: TenantsRoom | None
    audit: AuditRoom | None
    aborted: AbortedRequests
    sessions: SessionKeeper


class HotPaths:
    """The exchanges, by path, while the gateway runs."""

    def __init__(
        self,
        config: Config,
        metrics: Metrics,
        along: Along,
        reading: Understanding,
        road: Road,
        **common: Any,
    ) -> None:
        """`common`: what each `Exchange` is given.

        Raises ConfigError for a declared endpoint that the guard cannot read, or sessions cannot serve.
        """
        limits: list[Middleware] = []
        doors: list[Middleware] = []
        if along.tenants is not None:
            limits = along.tenants.middlewares(reading.is_auto, reading.pricing_of)
            doors = [along.tenants.door()]
        audited = [] if along.audit is None else along.audit.middlewares()
        resume = ResumeAborted(config.trajectories.abort, along.aborted, road.calls)
        own = [*along.middlewares]
        if along.recorder is not None:
            own.insert(own.index(along.recorder) + 1, resume)
        metrics.attempts.price_of = Prices(config.tenants.pricing, reading.pricing_of).of
        common |= {
            "metrics": metrics,
            "max_body_bytes": config.gateway.max_body_bytes,
            "timeout_s": config.gateway.request_timeout_s,
        }
        around = [*audited, *limits[:1], *reading.middlewares(), *limits[1:], *own]
        self.pipeline = Pipeline(around, road.end, metrics.steps)
        """Of completions."""
        reading.check_endpoints(ENDPOINTS)
        direct = ENDPOINTS.served_directly()
        exchanges = {
            endpoint: Exchange(endpoint, self.pipeline, **common)
            for endpoint in dict.fromkeys(direct.values())
        }
        self._by_path = {path: exchanges[endpoint] for path, endpoint in direct.items()}
        # Sessions keep their own record, and their answers are always resumed.
        others = [middleware for middleware in along.middlewares if middleware is not along.recorder]
        to_workers = Pipeline([*reading.behind_agents(), *limits, resume, *others], road.end, metrics.steps)
        outside = [*audited, *doors, *reading.agents_middlewares()]
        headers = config.routing.session.headers
        session_header = (headers[0] if headers else "x-session-id").encode("ascii")

        def agents(endpoint: Endpoint, wire: Wire) -> AgentExchange:
            to_agents = AgentRoad(wire, along.sessions, to_workers, session_header, reading.guard_of_parts)
            return AgentExchange(endpoint, wire, Pipeline(outside, to_agents, metrics.steps), **common)

        in_sessions = [endpoint for endpoint in ENDPOINTS if endpoint.is_in_session]
        self._agents = AgentCalls(in_sessions, agents)

    def find(self, scope: Scope) -> Exchange | None:
        """Whose a request is, if it is one of these."""
        return self._by_path.get(scope["path"]) or self._agents.find(scope)
