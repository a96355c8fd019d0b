"""Chats, opened with the first call that is for them, or at the start where there are any already."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from radixway.chat.metrics import AnswerMetrics
from radixway.component import CannotErase, Component, Subject
from radixway.config import ChatSection, ConfigError, radixway_home
from radixway.erasure import Erasure
from radixway.pipeline import Reply, Request
from radixway.routing import Registry
from radixway.surfaces.access import AdminAccess
from radixway.surfaces.chats.responses.paths import cannot_be_opened, is_for_responses
from radixway.tenants import TenantsRoom
from radixway.web import Receive, Scope, Send

if TYPE_CHECKING:
    from radixway.chat.completions import Road
    from radixway.chat.room import ChatRoom
    from radixway.chat.safety import Screen
    from radixway.surfaces.chats.responses.room import ResponseRoom

log = logging.getLogger(__name__)

OPENAPI = "/openapi/chats.json"
"""Where their OpenAPI is."""
_ROOTS = frozenset({"auth", "chats", "configs", "account", "plugins"})
_V1 = frozenset({"account", "chats", "webhooks"})
_OF_WORKERS = frozenset({"/work", "/workers/work", "/workers/sessions"})
"""The rest of `/workers` is about those that the gateway sends requests to."""
_COUNT_S = 1.0
"""How long a scrape waits for the database."""
_ADMIN = frozenset({"workers", "refresh_tokens", "users"})


def is_for_chats(path: str) -> bool:
    """Whether that path is one of theirs."""
    first, _, rest = path[1:].partition("/")
    if first == "v1" and rest.partition("/")[0] in _V1:
        return True
    if first in _ROOTS or path in _OF_WORKERS or path == OPENAPI or is_for_responses(path):
        return True
    return first == "admin" and rest.partition("/")[0] in _ADMIN


class Chats(Component):
    """An ASGI application, in one event loop. What could not be opened is tried again with the next call.

    To erase somebody, users are named by id, or as `provider:account`.
    """

    name = "chats"
    erasable_by = frozenset({"tenant", "user"})

    def __init__(
        self,
        config: ChatSection,
        registry: Registry,
        road: Road,
        erasure: Erasure | None = None,
        screen: Screen | None = None,
        metrics: AnswerMetrics | None = None,
        *,
        least_priority: int = -1,
        tenants: TenantsRoom | None = None,
        named: Callable[[], Iterable[str]] = tuple,
        access: AdminAccess | None = None,
    ) -> None:
        """`erasure`: forgets a user in all rooms, when they ask for it. `screen`: judges questions.
        `metrics`: told of answers. `least_priority`: see `ChatRoom`. `tenants`: whose keys count.
        `named`: what `road` knows besides models of workers. `access`: of whoever runs the gateway, who may
        chat, too; None: nobody counts as that.
        """
        self.room: ChatRoom | None = None
        """While they are open."""
        self._config = config
        self._registry = registry
        self._road = road
        self._erasure = erasure
        self._least_priority = least_priority
        self._named = named
        self._access = access
        self._screen = screen
        self._metrics = metrics
        self._tenants = tenants
        self._responses: ResponseRoom | None = None
        self._app: ASGIApp | None = None
        self.warming: asyncio.Task[None] | None = None
        """Imports what the first call needs."""
        self._unopened: str | None = None
        """What is wrong while there is no room."""
        self._open = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._listens = (registry.on_state, registry.on_learn, registry.on_remove)

    async def start(self) -> None:
        """Open them now where there are any already: what was under way when the last gateway ended goes on.

        Raises ConfigError.
        """
        if self.are_there():
            try:
                await self._opened()
            except BaseException:
                await self._open.aclose()
                raise
        for told in self._listens:
            told.append(self._look)

    async def stop(self) -> None:
        """Close them, if they are open."""
        for told in self._listens:
            told.remove(self._look)
        if self.warming is not None:
            self.warming.cancel()
        try:
            await self._open.aclose()
        finally:
            self.room = self._responses = self._app = None

    async def erase(self, subject: Subject) -> int:
        """See `Component`: how many rows there were."""
        if self.room is not None:
            return await self.room.forgetting.forget(subject.tenant, subject.user)
        if self.are_there():
            raise CannotErase("chats are not open yet")
        return 0

    def warm_up(self) -> None:
        """Import what the first call needs, in a thread: for servers that listen already. Nothing is opened,
        and no file is made; what fails is told to whoever calls."""
        if self.room is None and self.warming is None:
            self.warming = asyncio.create_task(_warm_up())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Opens them first, where that is still to be done; 503 where it cannot be done."""
        try:
            app = self._app or await self._opened()
        except ConfigError as error:
            self._unopened = "chats could not be opened: the log says why"
            log.warning("%s", error)
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1013})
                return
            closed = Response(cannot_be_opened().body(), 503, media_type="application/json")
            if not is_for_responses(scope["path"]):
                closed = JSONResponse({"detail": "Chats cannot be opened"}, 503)
            await closed(scope, receive, send)
            return
        await app(scope, receive, send)

    def are_there(self) -> bool:
        """Whether there is a database, open or not."""
        return (self._config.database or self._config.redis) is not None or (
            radixway_home() / "chats.db"
        ).exists()

    def pulling(self) -> list[tuple[str, float]]:
        """Workers that are connected to fetch jobs, by model."""
        if (room := self.room) is None:
            return []
        models = room.sessions.models
        return [(room.models.name_of(models[queue]), float(n)) for queue, n in room.sessions.busy.items()]

    def gpus(self) -> list[tuple[str, float]]:
        """How busy their GPUs are, where they tell, by model."""
        if (room := self.room) is None:
            return []
        models = room.sessions.models
        return [(room.models.name_of(models[queue]), share) for queue, share in room.sessions.gpus.items()]

    async def count(self) -> None:
        """Look how many answers wait; where the database does not say in time, nothing is told."""
        if self._metrics is None or self.room is None:
            return
        from sqlalchemy.exc import SQLAlchemyError

        self._metrics.depths, self._metrics.jobs = {}, {}
        try:
            async with asyncio.timeout(_COUNT_S):
                idle = dict.fromkeys((config.name for config in self.room.models.all()), 0)
                self._metrics.depths = idle | await self.room.jobs.depths()
                self._metrics.jobs = await self.room.jobs.standing()
        except (SQLAlchemyError, OSError, TimeoutError) as error:  # a scrape tells of everything else
            log.warning("how many answers wait is not known: %s", type(error).__name__)

    def describe(self) -> dict[str, Any]:
        """For `/health`: whether they are open, how processes hear each other, and what does not work."""
        room = self.room
        shared = None if room is None else room.shared
        told = (
            {"over": None, "problem": None}
            if shared is None
            else {"over": shared.name, "problem": shared.problem}
        )
        said: dict[str, Any] = {"open": room is not None, "shared": told}
        problem = self._unopened if room is None else room.database.problem
        if problem is not None:
            said["database"] = {"kind": None if room is None else room.database.kind, "problem": problem}
        if problem is not None or told["problem"] is not None:
            said["status"] = "degraded"
        return said

    def sharing(self) -> list[tuple[str, float]]:
        """Whether what this process hears the others by works: 1 or 0, by its name."""
        shared = None if self.room is None else self.room.shared
        return [] if shared is None else [(shared.name, float(shared.problem is None))]

    async def _opened(self) -> ASGIApp:
        async with self._lock:
            if self._app is None:
                self._app = await self._make()
            return self._app

    async def _make(self) -> ASGIApp:
        try:
            await asyncio.to_thread(_import)  # a second of a core's time
        except ImportError as error:
            raise ConfigError(f"chats need radixway[chat]: {error}") from error
        from radixway.chat.room import ChatRoom
        from radixway.surfaces.chats.app import chat_app
        from radixway.surfaces.chats.responses.app import responses_app
        from radixway.surfaces.chats.responses.owners import Owners
        from radixway.surfaces.chats.responses.room import ResponseRoom
        from radixway.surfaces.chats.tenancy import as_its_tenant
        from radixway.surfaces.chats.who import Who

        tenants = self._tenants

        async def road(request: Request) -> Reply:
            return await as_its_tenant(
                request, room.accounts, None if tenants is None else tenants.tenancies, self._road
            )

        room = ChatRoom(
            self._config,
            radixway_home(),
            road,
            self._models,
            least_priority=self._least_priority,
            screen=self._screen,
        )
        await self._open.enter_async_context(room.running())
        self.room = room
        if self._metrics is not None:
            room.count_ends(self._metrics)
            self._metrics.active_workers, self._metrics.look = self.pulling, self.count
            self._metrics.sharing, self._metrics.gpus = self.sharing, self.gpus
        ring = None if tenants is None else tenants.ring
        app = chat_app(room, self._erasure, ring, self._access)
        responses = ResponseRoom(room, road, self._registry)
        await self._open.enter_async_context(responses.running())
        self._responses = responses
        owners = Owners(room, Who(room, ring), keys_are_needed=bool(ring))
        theirs = responses_app(responses, owners)

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            is_theirs = scope["type"] == "http" and is_for_responses(scope["path"])
            await (theirs if is_theirs else app)(scope, receive, send)

        return both

    def _models(self) -> frozenset[str]:
        """That the road answers for."""
        served = self._registry.models()
        return served.union(self._named()) if served else served

    def _look(self, _: object) -> None:
        if self.room is not None:
            self.room.look_for_workers()
        if self._responses is not None:
            self._responses.look_for_workers()


async def _warm_up() -> None:
    try:
        await asyncio.to_thread(_import)
    except Exception:  # whatever it is, it harms nobody who does not chat
        log.debug("chats cannot be imported", exc_info=True)


def _import() -> None:
    import radixway.chat.room
    import radixway.surfaces.chats.app
    import radixway.surfaces.chats.responses.app  # noqa: F401
