"""What is served raw: the declared endpoints, those of sessions too. All other paths are FastAPI's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radixway.api import (
    RequestHandler,
    SessionCallRouter,
    SessionDispatcher,
    SessionRequestHandler,
    SessionService,
)
from radixway.api.protocols import ProtocolAdapter
from radixway.core.config import Config
from radixway.core.http import Scope
from radixway.core.pipeline import ENDPOINTS, AbortedRequests, Endpoint, Middleware, Pipeline
from radixway.core.telemetry import MetricsRegistry
from radixway.core.tenants import PriceList, TenantService
from radixway.gateway.semantics_builder import SemanticsBuilder
from radixway.gateway.upstream_stack import UpstreamStack
from radixway.semantics.guard.audit import AuditService
from radixway.trajectories import RadixTreeMiddleware, ResumeAborted


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDependencies:
    """What stands along the road of a raw request, beside what reads it; None: the gateway has none."""

    middlewares: Sequence[Middleware]
    """Those configured, in their order."""
    recorder: RadixTreeMiddleware | None
    """One of them, if trajectories are recorded."""
    tenants: TenantService | None
    audit: AuditService | None
    aborted: AbortedRequests
    sessions: SessionService


class InferenceRoutes:
    """The exchanges, by path, while the gateway runs."""

    def __init__(
        self,
        config: Config,
        metrics: MetricsRegistry,
        along: PipelineDependencies,
        reading: SemanticsBuilder,
        road: UpstreamStack,
        **common: Any,
    ) -> None:
        """`common`: what each `RequestHandler` is given.

        Raises ConfigError for a declared endpoint that the guard cannot read, or sessions cannot serve.
        """
        limits: list[Middleware] = []
        doors: list[Middleware] = []
        if along.tenants is not None:
            limits = along.tenants.middlewares(reading.is_auto, reading.model_pricing)
            doors = [along.tenants.session_admission()]
        audited = [] if along.audit is None else along.audit.middlewares()
        resume = ResumeAborted(config.trajectories.abort, along.aborted, road.calls)
        own = [*along.middlewares]
        if along.recorder is not None:
            own.insert(own.index(along.recorder) + 1, resume)
        metrics.attempts.price_of = PriceList(config.tenants.pricing, reading.model_pricing).cost_of
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
            endpoint: RequestHandler(endpoint, self.pipeline, **common)
            for endpoint in dict.fromkeys(direct.values())
        }
        self._by_path = {path: exchanges[endpoint] for path, endpoint in direct.items()}
        # Sessions keep their own record, and their answers are always resumed.
        others = [middleware for middleware in along.middlewares if middleware is not along.recorder]
        to_workers = Pipeline(
            [*reading.worker_middlewares(), *limits, resume, *others], road.end, metrics.steps
        )
        outside = [*audited, *doors, *reading.session_middlewares()]
        headers = config.routing.session.headers
        session_header = (headers[0] if headers else "x-session-id").encode("ascii")

        def agents(endpoint: Endpoint, wire: ProtocolAdapter) -> SessionRequestHandler:
            to_agents = SessionDispatcher(
                wire, along.sessions, to_workers, session_header, reading.parts_guard
            )
            return SessionRequestHandler(
                endpoint, wire, Pipeline(outside, to_agents, metrics.steps), **common
            )

        in_sessions = [endpoint for endpoint in ENDPOINTS if endpoint.is_in_session]
        self._agents = SessionCallRouter(in_sessions, agents)

    def find_handler(self, scope: Scope) -> RequestHandler | None:
        """Whose a request is, if it is one of these."""
        return self._by_path.get(scope["path"]) or self._agents.find_handler(scope)
