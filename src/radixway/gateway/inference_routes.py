"""The handlers of declared endpoints, raw ASGI, and the order of their middlewares."""

from collections.abc import Sequence
from typing import Any

from radixway.api import (
    RequestHandler,
    SessionCallRouter,
    SessionDispatcher,
    SessionRequestHandler,
    SessionService,
)
from radixway.api.messages import MessagesDispatcher, MessagesHandler, RequestIdHeader
from radixway.api.native_surfaces import NativeSurfaces
from radixway.api.token_count import PromptTokenCounter, TokenCountDispatcher
from radixway.core.config import Config
from radixway.core.http import Scope
from radixway.core.pipeline import ENDPOINTS, FORM_ENDPOINTS, AbortedRequests, Endpoint, Middleware, Pipeline
from radixway.core.pipeline.endpoints import (
    BATCHES,
    COUNT_RESPONSE_TOKENS,
    COUNT_TOKENS,
    FILES,
    MESSAGES,
    RESPONSES,
)
from radixway.core.protocols import AnthropicAdapter, ProtocolAdapter, ResponsesAdapter
from radixway.core.telemetry import MetricsRegistry
from radixway.core.tenants import PriceList, StreamUsage, TenantService
from radixway.gateway.semantics_builder import SemanticsBuilder
from radixway.gateway.upstream_stack import UpstreamStack
from radixway.routing.transports.dearest_prices import DearestPrices
from radixway.semantics.guard.audit import AuditService
from radixway.trajectories import RadixTreeMiddleware, ResumeAborted


class InferenceRoutes:
    """The handler of each declared endpoint, by path."""

    def __init__(
        self,
        config: Config,
        metrics: MetricsRegistry,
        semantics: SemanticsBuilder,
        upstream: UpstreamStack,
        *,
        middlewares: Sequence[Middleware],
        recorder: RadixTreeMiddleware | None,
        tenants: TenantService | None,
        audit: AuditService | None,
        aborted: AbortedRequests,
        sessions: SessionService,
        placements: Sequence[Middleware],
        **common: Any,
    ) -> None:
        """Compose the pipelines: `middlewares` are those configured, in their order; what is None is off.

        `recorder` is one of them, if trajectories are recorded. `placements` find workers
        that keep what requests are about. `common`: arguments of each `RequestHandler`.

        Raises ConfigError for a declared endpoint that the guard cannot read, or sessions cannot serve.
        """
        limits: list[Middleware] = []
        admission: list[Middleware] = []
        prices = PriceList(config.tenants.pricing, semantics.model_pricing)
        if tenants is not None:
            dearest = DearestPrices(
                config.routing,
                upstream.registry,
                prices,
                semantics.is_auto,
                semantics.current_section,
                config.guard.private_models,
            )
            limits = tenants.middlewares(prices, dearest.find_price, semantics.is_auto)
            admission = [tenants.session_admission()]
        audited = [] if audit is None else audit.middlewares()
        usage: list[Middleware] = []
        if tenants is not None or semantics.semantic is not None:
            accounts = {} if tenants is None else tenants.accounts
            is_priced = bool(config.tenants.pricing)
            usage = [
                StreamUsage(prices, accounts, semantics.is_auto, lambda: is_priced or semantics.has_prices())
            ]
        resume = ResumeAborted(config.trajectories.abort, aborted, upstream.calls)
        own = [*middlewares]
        if recorder is not None:
            own.insert(own.index(recorder) + 1, resume)
        metrics.attempts.price_of = prices.cost_of
        common |= {
            "metrics": metrics,
            "max_body_bytes": config.gateway.max_body_bytes,
            "timeout_s": config.gateway.request_timeout_s,
        }
        around = [
            *audited,
            *usage,
            *limits[:1],
            *semantics.middlewares(),
            *limits[1:],
            upstream.surface_selection,
            *placements,
            *own,
        ]
        self.pipeline = Pipeline(around, upstream.dispatch, metrics.steps)
        """Pipeline of completions."""
        semantics.check_endpoints(ENDPOINTS)
        direct = ENDPOINTS.served_directly()
        handlers = {
            endpoint: RequestHandler(endpoint, self.pipeline, **common)
            for endpoint in dict.fromkeys(direct.values())
        }
        self.by_path = {path: handlers[endpoint] for path, endpoint in direct.items()}
        """The handlers of the paths in `ENDPOINTS`, but sessions'."""
        semantics.check_endpoints((*FORM_ENDPOINTS, FILES, BATCHES))
        reads_answers = semantics.guard is not None or semantics.cache is not None
        self.native = NativeSurfaces(
            upstream.registry, upstream.surfaces, semantics.is_auto, reads_answers=reads_answers
        )
        messages = MessagesDispatcher(self.native, self.pipeline)
        registry, prompts = upstream.registry, upstream.prompts
        self.count_response_tokens = PromptTokenCounter(
            registry, prompts, self.pipeline, {"object": "response.input_tokens"}
        )
        """Counts for responses that go on from kept ones."""
        message_counts = TokenCountDispatcher(
            self.native,
            self.pipeline,
            PromptTokenCounter(registry, prompts, self.pipeline, {}),
            AnthropicAdapter().parse_count_request,  # no images: what they come to, their worker alone knows
        )
        response_counts = TokenCountDispatcher(
            self.native, self.pipeline, self.count_response_tokens, ResponsesAdapter().parse_request
        )
        self._creating = {
            endpoint.path: RequestHandler(endpoint, self.pipeline, **common) for endpoint in (FILES, BATCHES)
        }
        """The handlers of paths that are listed by GET."""
        self.responses = RequestHandler(RESPONSES, self.pipeline, **common)
        """Passes responses on to workers that have them; it is asked by `ResponseRouter` alone."""
        self.response_tokens = RequestHandler(COUNT_RESPONSE_TOKENS, Pipeline([], response_counts), **common)
        """Counts the tokens of responses; asked by `ResponseRouter` too."""
        self._others = {
            path: RequestHandler(endpoint, self.pipeline, **common)
            for endpoint in FORM_ENDPOINTS
            for path in endpoint.paths
        } | {
            endpoint.path: MessagesHandler(endpoint, Pipeline([RequestIdHeader()], answer), **common)
            for endpoint, answer in ((MESSAGES, messages), (COUNT_TOKENS, message_counts))
        }
        # Sessions keep their own record, and their answers are always resumed.
        others = [middleware for middleware in middlewares if middleware is not recorder]
        to_workers = Pipeline(
            [*semantics.worker_middlewares(), *limits, resume, *others], upstream.dispatch, metrics.steps
        )
        around_sessions = [*audited, *admission, *semantics.session_middlewares()]
        headers = config.routing.session.headers
        session_header = (headers[0] if headers else "x-session-id").encode("ascii")

        def session_handler(endpoint: Endpoint, adapter: ProtocolAdapter) -> SessionRequestHandler:
            dispatcher = SessionDispatcher(
                adapter, sessions, to_workers, session_header, semantics.parts_guard
            )
            return SessionRequestHandler(
                endpoint, adapter, Pipeline(around_sessions, dispatcher, metrics.steps), **common
            )

        in_sessions = [endpoint for endpoint in ENDPOINTS if endpoint.is_in_session]
        self._sessions = SessionCallRouter(in_sessions, session_handler)

    def find_handler(self, scope: Scope) -> RequestHandler | None:
        """Return the handler of the request in `scope`; None where its path is not a declared endpoint."""
        path = scope["path"]
        if path in self._creating:
            return self._creating[path] if scope["method"] == "POST" else None
        return self.by_path.get(path) or self._others.get(path) or self._sessions.find_handler(scope)
