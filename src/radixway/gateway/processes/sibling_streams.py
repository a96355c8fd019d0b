"""Streams of lines that all children together make: one after the other, or as the lines come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from time import perf_counter
from typing import Any

import aiohttp
import msgspec

from radixway.cluster.session_ownership import OwnerProxy
from radixway.core.http import App, Message, Receive, Scope, Send
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.gateway.processes.process_group import slot_url

log = logging.getLogger(__name__)


class LineStreams:
    """Joins this child's stream with those of its siblings, for one request."""

    def __init__(self, app: App, owners: OwnerProxy, slots: Sequence[int]) -> None:
        """`slots`: the siblings."""
        self._app = app
        self._owners = owners
        self._slots = slots

    async def concatenate(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send this child's lines, then those of each sibling. Without all of them the stream is cut off."""
        last: Message | None = None
        is_joined = False

        async def hold_end(message: Message) -> None:
            nonlocal last, is_joined
            if message["type"] == "http.response.start":
                is_joined = message["status"] == 200
            elif is_joined and not message.get("more_body", False):
                last = message
                message = {**message, "more_body": True}
            await send(message)

        await self._app(scope, receive, hold_end)
        if last is None:
            return
        try:
            for slot in self._slots:
                async with self._owners.open_request(slot_url(slot), scope, b"") as answer:
                    answer.raise_for_status()
                    async for part in answer.content.iter_any():
                        await send({"type": "http.response.body", "body": part, "more_body": True})
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("%s is cut off: %s", scope["path"], error or type(error).__name__)
            return  # the server closes the connection: the end is missing
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def interleave(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines of all as they come, until any stream ends: a trace must have no gaps."""
        began, started = perf_counter(), asyncio.Event()
        is_joined = False

        async def note_start(message: Message) -> None:
            nonlocal is_joined
            await send(message)
            if message["type"] == "http.response.start":
                is_joined = message["status"] == 200
                started.set()

        own = asyncio.create_task(self._answer(scope, receive, note_start))
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait([own, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not is_joined:
            await own
            return
        others = [
            asyncio.create_task(
                self._relay_lines(slot, scope, send, began), name=f"traffic of process {slot}"
            )
            for slot in self._slots
        ]
        try:
            await asyncio.wait([own, *others], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_tasks([own, *others])
        with suppress(RuntimeError):  # this child's own stream has ended it
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def _relay_lines(self, slot: int, scope: Scope, send: Send, began: float) -> None:
        try:
            async with self._owners.open_request(slot_url(slot), scope, b"") as answer:
                answer.raise_for_status()
                later_ms = (perf_counter() - began) * 1e3
                async with aclosing(_read_lines(answer)) as lines:
                    async for line in lines:
                        fields: dict[str, Any] = msgspec.json.decode(line)
                        fields["timestamp"] = round(fields["timestamp"] + later_ms, 3)
                        whole = msgspec.json.encode(fields) + b"\n"
                        await send({"type": "http.response.body", "body": whole, "more_body": True})
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("the traffic of process %d ends: %s", slot, error or type(error).__name__)


async def _read_lines(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    rest = b""
    async for part in answer.content.iter_any():
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line
