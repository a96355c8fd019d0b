"""Calls from one child to another, over the private sockets."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import aiohttp

from radixway.api.console.proxy import forward_websocket
from radixway.cluster.session_ownership import HopSigner, OwnerProxy, OwnerUnavailableError
from radixway.cluster.session_ownership.signed_hop import HEADER
from radixway.core.http import Receive, Scope, Send, read_body
from radixway.gateway.processes.collected_reply import CollectedReply
from radixway.gateway.processes.process_group import FIRST_SLOT, ProcessGroup, slot_url
from radixway.gateway.processes.sibling_connections import SiblingConnections

log = logging.getLogger(__name__)

_RESTART_TIMEOUT_S = 15.0
"""How long a call waits for a child that is being started again."""
_REPLY_TIMEOUT_S = 30.0
"""How long a sibling may take for its part of an answer."""


class SiblingCalls:
    """Asks siblings, and forwards to the first child what that one has to answer."""

    def __init__(
        self,
        group: ProcessGroup,
        owners: OwnerProxy,
        connections: SiblingConnections,
        signer: HopSigner,
        max_body_bytes: int,
    ) -> None:
        """`owners` and `connections` reach the siblings; `signer` signs what they are sent."""
        self._group = group
        self._owners = owners
        self._connections = connections
        self._signer = signer
        self._max_body_bytes = max_body_bytes

    async def ask_slot(self, slot: int, scope: Scope, raw: bytes) -> CollectedReply | None:
        """Return what the sibling in `slot` answers to `scope` with the body `raw`; None: nothing."""
        try:
            async with (
                asyncio.timeout(_REPLY_TIMEOUT_S),
                self._owners.open_request(slot_url(slot), scope, raw) as answer,
            ):
                return CollectedReply(answer.status, [*answer.raw_headers], await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning(
                "process %d does not answer %s: %s", slot, scope["path"], error or type(error).__name__
            )
            return None

    async def ask_others(self, scope: Scope, raw: bytes) -> list[CollectedReply]:
        """Return the answers of all siblings that serve and answer, asked one after the other."""
        slots = self._group.other_slots()
        return [reply for slot in slots if (reply := await self.ask_slot(slot, scope, raw)) is not None]

    async def send_to_name(self, name: str, scope: Scope, raw: bytes) -> None:
        """Send `raw` to the child `name`; one that cannot be reached has ended, and its successor asks."""
        headers = {HEADER.decode(): self._signer.sign_hop(scope)}
        try:
            async with (
                asyncio.timeout(_REPLY_TIMEOUT_S),
                self._connections.session_at(name).request(
                    scope["method"], f"http://{name}{scope['path']}", data=raw, headers=headers
                ) as answer,
            ):
                if answer.status >= 400:
                    log.error("process %s refuses %s: %s", name, scope["path"], await answer.text())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("process %s was not sent %s: %s", name, scope["path"], error or type(error).__name__)

    async def forward_to_first(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the first child answer, or its successor where it has died. Raises OwnerUnavailableError."""
        raw = await read_body(scope, receive, self._max_body_bytes)
        path = await self._group.wait_slot(FIRST_SLOT, _RESTART_TIMEOUT_S)
        try:
            await self._owners.forward_request(slot_url(FIRST_SLOT), scope, raw, receive, send)
        except OwnerUnavailableError as error:
            if path is None or not error.is_unsent:
                raise
            # It has died, and the supervisor's message that says so is still on its way.
            await self._group.wait_slot(FIRST_SLOT, _RESTART_TIMEOUT_S, after=path)
            await self._owners.forward_request(slot_url(FIRST_SLOT), scope, raw, receive, send)

    async def forward_websocket_to_first(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the first child, or its successor, take a WebSocket; without either it is closed with 1013."""
        path = await self._group.wait_slot(FIRST_SLOT, _RESTART_TIMEOUT_S)
        try:
            try:
                await self._forward_websocket(scope, receive, send)
            except (aiohttp.ClientConnectorError, ConnectionRefusedError):  # as in `forward_to_first`
                if path is None:
                    raise
                await self._group.wait_slot(FIRST_SLOT, _RESTART_TIMEOUT_S, after=path)
                await self._forward_websocket(scope, receive, send)
        except (aiohttp.ClientError, OSError) as error:
            log.warning("the first process does not take a WebSocket: %s", error or type(error).__name__)
            with suppress(RuntimeError):  # it is closed already
                await send({"type": "websocket.close", "code": 1013})

    async def _forward_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        hop = ((HEADER, self._signer.sign_hop(scope).encode("latin-1")),)
        session = self._connections.session_for(slot_url(FIRST_SLOT))
        await forward_websocket(session, scope, receive, send, hop)


def make_scope(method: str, path: str) -> Scope:
    """Return the scope of a call that a child itself makes."""
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [],
        "client": None,
    }
