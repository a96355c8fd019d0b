"""Chats, opened with the first call that is for them, or at the start where there are any already."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from radixway.api.admin_access import AdminAccess
from radixway.api.chats.paths import chats_unavailable_error, is_response_path
from radixway.chat.answer_metrics import AnswerMetrics
from radixway.core.component import CannotErase, Component, Subject
from radixway.core.config import ChatConfig, ConfigError, radixway_home
from radixway.core.erasure import ErasureService
from radixway.core.http import Receive, Scope, Send
from radixway.core.pipeline import Reply, Request
from radixway.core.tenants import TenantService
from radixway.routing import WorkerRegistry

if TYPE_CHECKING:
    from radixway.api.chats.responses.service import ResponseService
    from radixway.chat.local_completions import PipelineCall
    from radixway.chat.safety import SafetyScreen
    from radixway.chat.service import ChatService

log = logging.getLogger(__name__)

_COUNT_S = 1.0
"""Seconds that a scrape waits for the database."""


class ChatsApplication(Component):
    """An ASGI application, in one event loop. If opening fails, the next call tries again.

    Erasure names users by id, or as `provider:account`.
    """

    name = "chats"
    erasable_by = frozenset({"tenant", "user"})

    def __init__(
        self,
        config: ChatConfig,
        registry: WorkerRegistry,
        pipeline: PipelineCall,
        count_tokens: PipelineCall,
        erasure: ErasureService | None = None,
        screen: SafetyScreen | None = None,
        metrics: AnswerMetrics | None = None,
        *,
        least_priority: int = -1,
        tenants: TenantService | None = None,
        named: Callable[[], Iterable[str]] = tuple,
        access: AdminAccess | None = None,
    ) -> None:
        """`count_tokens`: counts the tokens of what would be sent down `pipeline`.
        `erasure`: erases a user in every component. `screen`: judges questions. `metrics`: counts answers.
        `least_priority`: see `ChatService`. `tenants`: their keys count. `named`: models that `pipeline`
        knows besides those of workers. `access`: lets the operator chat; None: the operator may not."""
        self.service: ChatService | None = None
        """None while chats are closed."""
        self._config = config
        self._registry = registry
        self._pipeline = pipeline
        self._count_tokens = count_tokens
        self._erasure = erasure
        self._least_priority = least_priority
        self._named = named
        self._access = access
        self._screen = screen
        self._metrics = metrics
        self._tenants = tenants
        self._responses: ResponseService | None = None
        self._app: ASGIApp | None = None
        self.warming: asyncio.Task[None] | None = None
        self._open_problem: str | None = None
        """Why the chats could not be opened, or None."""
        self._open = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._worker_callbacks = (registry.on_state, registry.on_learn, registry.on_remove)

    async def start(self) -> None:
        """Open chats if a database exists, so that unfinished answers resume. Raises ConfigError."""
        if self.has_database():
            try:
                await self._get_app()
            except BaseException:
                await self._open.aclose()
                raise
        for callbacks in self._worker_callbacks:
            callbacks.append(self._on_workers_changed)

    async def stop(self) -> None:
        """Close the chats, if they are open."""
        for callbacks in self._worker_callbacks:
            callbacks.remove(self._on_workers_changed)
        if self.warming is not None:
            self.warming.cancel()
        try:
            await self._open.aclose()
        finally:
            self.service = self._responses = self._app = None

    async def erase(self, subject: Subject) -> int:
        """Erase the users that `subject` names; return how many rows were deleted."""
        if self.service is not None:
            return await self.service.user_erasure.erase_users(subject.tenant, subject.user)
        if self.has_database():
            raise CannotErase("chats are not open yet")
        return 0

    def warm_up(self) -> None:
        """Import what the first call needs, in a thread; the first call reports a failure."""
        if self.service is None and self.warming is None:
            self.warming = asyncio.create_task(_import_in_thread())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open the chats first if they are closed; reply 503 if they cannot be opened."""
        try:
            app = self._app or await self._get_app()
        except ConfigError as error:
            self._open_problem = "chats could not be opened: the log says why"
            log.warning("%s", error)
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1013})
                return
            closed = Response(chats_unavailable_error().body(), 503, media_type="application/json")
            if not is_response_path(scope["path"]):
                closed = JSONResponse({"detail": "Chats cannot be opened"}, 503)
            await closed(scope, receive, send)
            return
        await app(scope, receive, send)

    def has_database(self) -> bool:
        """Return whether there is a database, open or not."""
        return (self._config.database or self._config.redis) is not None or (
            radixway_home() / "chats.db"
        ).exists()

    def busy_pull_workers(self) -> list[tuple[str, float]]:
        """Count connected pull workers, by model."""
        return [] if self.service is None else _by_model(self.service, self.service.sessions.busy)

    def gpu_utilization(self) -> list[tuple[str, float]]:
        """Return how busy the GPUs of pull workers are (0 to 1), by model, where they say."""
        return [] if self.service is None else _by_model(self.service, self.service.sessions.gpus)

    async def count_waiting(self) -> None:
        """Count the answers that wait; where the database does not reply in time, nothing is reported."""
        if self._metrics is None or self.service is None:
            return
        from sqlalchemy.exc import SQLAlchemyError

        self._metrics.depths, self._metrics.jobs = {}, {}
        try:
            async with asyncio.timeout(_COUNT_S):
                idle = dict.fromkeys((config.name for config in self.service.models.list_configs()), 0)
                self._metrics.depths = idle | await self.service.jobs.queue_depths()
                self._metrics.jobs = await self.service.jobs.job_ages()
        except (SQLAlchemyError, OSError, TimeoutError) as error:  # the scrape reports everything else
            log.warning("cannot count waiting answers: %s", type(error).__name__)

    def describe(self) -> dict[str, Any]:
        """Describe for `/health`: whether chats are open, how processes notify each other, and what fails."""
        service = self.service
        shared = None if service is None else service.reconnecting
        over, unshared = (None, None) if shared is None else (shared.name, shared.problem)
        report: dict[str, Any] = {"open": service is not None, "shared": {"over": over, "problem": unshared}}
        problem = self._open_problem if service is None else service.database.problem
        if problem is not None:
            report["database"] = {
                "kind": None if service is None else service.database.kind,
                "problem": problem,
            }
        if problem is not None or unshared is not None:
            report["status"] = "degraded"
        return report

    def notification_states(self) -> list[tuple[str, float]]:
        """Return 1 or 0 by name: whether the notifications between processes work."""
        shared = None if self.service is None else self.service.reconnecting
        return [] if shared is None else [(shared.name, float(shared.problem is None))]

    async def _get_app(self) -> ASGIApp:
        async with self._lock:
            if self._app is None:
                self._app = await self._create_app()
            return self._app

    async def _create_app(self) -> ASGIApp:
        try:
            await asyncio.to_thread(_import_dependencies)  # a second of a core's time
        except ImportError as error:
            raise ConfigError(f"chats need radixway[chat]: {error}") from error
        from radixway.api.chats.app import build_chat_app, build_responses_app, send_as_tenant
        from radixway.api.chats.auth_dependencies import ChatAuthenticator
        from radixway.api.chats.responses.service import ResponseOwners, ResponseService
        from radixway.chat.service import ChatService

        tenants = self._tenants

        def as_tenant(call: PipelineCall) -> PipelineCall:
            async def send(request: Request) -> Reply:
                return await send_as_tenant(request, service.accounts, tenants, call)

            return send

        pipeline = as_tenant(self._pipeline)

        service = ChatService(
            self._config,
            radixway_home(),
            pipeline,
            self._served_models,
            least_priority=self._least_priority,
            screen=self._screen,
        )
        await self._open.enter_async_context(service.running())
        self.service = service
        if self._metrics is not None:
            service.add_answer_metrics(self._metrics)
            self._metrics.active_workers, self._metrics.look = self.busy_pull_workers, self.count_waiting
            self._metrics.sharing, self._metrics.gpus = self.notification_states, self.gpu_utilization
        ring = None if tenants is None else tenants.ring
        app = build_chat_app(service, self._erasure, ring, self._access)
        responses = ResponseService(service, pipeline, as_tenant(self._count_tokens), self._registry)
        await self._open.enter_async_context(responses.running())
        self._responses = responses
        owners = ResponseOwners(
            service,
            ChatAuthenticator(service, ring),
            keys_are_needed=lambda: ring is not None and ring.needs_keys,
        )
        responses_app = build_responses_app(responses, owners)

        async def route(scope: Scope, receive: Receive, send: Send) -> None:
            is_response = scope["type"] == "http" and is_response_path(scope["path"])
            await (responses_app if is_response else app)(scope, receive, send)

        return route

    def _served_models(self) -> frozenset[str]:
        served = self._registry.known_models()
        return served.union(self._named()) if served else served

    def _on_workers_changed(self, _: object) -> None:
        if self.service is not None:
            self.service.update_local_queues()
        if self._responses is not None:
            self._responses.update_queues()


def _by_model(service: ChatService, by_queue: Mapping[str, float]) -> list[tuple[str, float]]:
    queues = service.sessions.models
    return [(service.models.find_name(queues[queue]), float(value)) for queue, value in by_queue.items()]


async def _import_in_thread() -> None:
    try:
        await asyncio.to_thread(_import_dependencies)
    except Exception:  # only chats need these modules
        log.debug("chats cannot be imported", exc_info=True)


def _import_dependencies() -> None:
    import radixway.api.chats.app
    import radixway.chat.service  # noqa: F401
