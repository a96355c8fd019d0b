"""`WS /workers/work` and `WS /work`: workers that connect to fetch jobs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, WebSocket, WebSocketDisconnect
from sqlalchemy.exc import SQLAlchemyError

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.chat.ids import new_id
from radixway.chat.pull import (
    OVERVIEW,
    PUBLISHED,
    ConnectionGoneError,
    InvalidFrameError,
    PullWorker,
    WorkerDialect,
    WorkerSession,
    WorkerTimeouts,
    encode_server_frame,
)
from radixway.chat.records import PullWorkerRecord
from radixway.chat.service import ChatService
from radixway.core.http import LazyRouter

log = logging.getLogger(__name__)

FindWorker = Callable[[], Awaitable[PullWorkerRecord | None]]
_CLOSE_S = 1.0
_WRONG_KEY, _WRONG_VERSION, _BAD_FRAME, _TRY_LATER = 4401, 4426, 1008, 1013


class WebSocketLink:
    """A Starlette WebSocket as a `Link`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def receive(self) -> str | bytes:
        """Return the next frame. Raises ConnectionGoneError."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise ConnectionGoneError
        given: str | bytes | None = message.get("text")
        return message["bytes"] if given is None else given

    async def send(self, frame: bytes) -> None:
        """Send `frame`. Raises ConnectionGoneError."""
        try:
            await self._socket.send_text(frame.decode())
        except (WebSocketDisconnect, RuntimeError, OSError) as error:  # as Starlette says of closed ones
            raise ConnectionGoneError from error

    async def close(self, code: int, reason: str) -> None:
        """Close with `code` and `reason`, cut to what a frame holds, without waiting for a silent peer."""
        with suppress(WebSocketDisconnect, RuntimeError, OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._socket.close(code, reason.encode()[:120].decode(errors="ignore"))


def pull_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build the WebSockets of pull workers. A refused one is accepted first, to send the reason."""
    router = LazyRouter(tags=["workers"])

    @router.get("/workers/sessions", dependencies=[Depends(auth.require_admin)])
    async def sessions() -> list[dict[str, Any]]:
        """List the workers that are connected to any process; for the administrator."""
        return await service.sessions.list_shapes()

    async def serve(
        socket: WebSocket,
        dialect: WorkerDialect,
        key: str | None,
        encode_refusal: Callable[[str], bytes],
        *,
        is_current: bool,
    ) -> None:
        await socket.accept()
        websocket = WebSocketLink(socket)
        if not is_current:
            await _refuse_registration(websocket, encode_refusal("upgrade_protocol"), _WRONG_VERSION)
        elif not await _serve_connection(service, websocket, dialect, lambda: auth.find_worker(key)):
            await _refuse_registration(websocket, encode_refusal("wrong_api_key"), _WRONG_KEY)

    @router.websocket("/workers/work")
    async def published(socket: WebSocket) -> None:
        """The published protocol: key and version in headers."""
        key, is_current = socket.headers.get("x-api-key"), socket.headers.get("x-protocol-version") == "1"
        refusal = partial(encode_server_frame, new_id())
        await serve(socket, PUBLISHED, key, refusal, is_current=is_current)

    @router.websocket("/work")
    async def overview(socket: WebSocket) -> None:
        """Serve a worker of the overview's protocol: key and version in the query."""
        query = socket.query_params
        is_current = query.get("protocol_version") == "v2"
        await serve(socket, OVERVIEW, query.get("api_key"), _refusal_frame, is_current=is_current)

    return router


async def _serve_connection(
    service: ChatService, websocket: WebSocketLink, dialect: WorkerDialect, find_worker: FindWorker
) -> bool:
    """Return as `_serve_worker`; while the database is unavailable, close so that the worker retries."""
    try:
        worker = await find_worker()
        return worker is not None and await _serve_worker(service, websocket, dialect, worker, find_worker)
    except SQLAlchemyError as error:
        log.warning("the database does not answer: %s", type(error).__name__)
        await websocket.close(_TRY_LATER, "the database does not answer")
        return True


async def _serve_worker(
    service: ChatService,
    websocket: WebSocketLink,
    dialect: WorkerDialect,
    worker: PullWorkerRecord,
    find_worker: FindWorker,
) -> bool:
    """Serve `worker` until it leaves or is closed. Returns whether its key stayed valid."""
    config = service.config.workers
    try:
        async with asyncio.timeout(config.first_frame_s):
            info = dialect.read_info(await websocket.receive(), service.models.find_config)
    except (InvalidFrameError, TimeoutError) as error:
        await websocket.close(_BAD_FRAME, str(error) or "no first frame")
        return True
    except ConnectionGoneError:
        return True
    session = WorkerSession(worker.id, info, service.clock())
    timeouts = WorkerTimeouts(
        config.ping_s, config.inactivity_timeout_s, config.answer_silence_s, config.unread_s
    )
    try:
        await service.sessions.open_session(session)
        welcome = dialect.encode_welcome(info, worker.id, session.model.compat_hash)
        if welcome is not None:
            await websocket.send(welcome)
        pull_worker = PullWorker(
            websocket, dialect, session, service.answers, service.clock, timeouts, config.safety_level
        )
        if not await _serve_while_authorized(pull_worker, find_worker, service.config.lease_s / 3):
            return False
    except ConnectionGoneError:
        pass
    finally:
        await service.sessions.close_session(session)
    await websocket.close(1001, "")
    return True


async def _serve_while_authorized(pull_worker: PullWorker, find_worker: FindWorker, every_s: float) -> bool:
    """Return whether the worker left by itself; a revoked key ends its connections."""
    running = asyncio.create_task(pull_worker.serve_worker())
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=every_s)
            with suppress(SQLAlchemyError):  # an unavailable database disconnects no worker
                if not running.done() and await find_worker() is None:
                    return False
        await running
        return True
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _refuse_registration(websocket: WebSocketLink, frame: bytes, code: int) -> None:
    try:
        await websocket.send(frame)
    except ConnectionGoneError:
        return
    await websocket.close(code, "")


def _refusal_frame(why: str) -> bytes:
    refusal: dict[str, Any] = {"type": "RegistrationResponse", "registered": False, "error": why}
    return msgspec.json.encode(refusal)
