"""ASGI's three arguments, and a watch over the client while its request is being answered."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Literal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FORWARDER = "radixway.forwarder"
"""The key of a scope that says who brings the request to its worker, where the gateway does not."""


class ClientWatch:
    """Cancels the current task when its client leaves or its deadline passes, until closed.

    The deadline counts from the beginning; the client is watched from `watch` on. After a cancellation
    `ended_by` tells ours from others; the task then calls `uncancel` and goes on to clean up.
    """

    __slots__ = ("_receiving", "_task", "_timer", "ended_by")

    def __init__(self, timeout_s: float | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.ended_by: Literal["client", "deadline"] | None = None
        self._task = asyncio.current_task(loop)
        self._timer = None if timeout_s is None else loop.call_later(timeout_s, self._cancel_task, "deadline")
        self._receiving: asyncio.Future[Message] | None = None

    def watch(self, receive: Receive) -> None:
        """The body has been read: take over `receive`, which next tells that the client left."""
        self._receiving = asyncio.ensure_future(receive())
        self._receiving.add_done_callback(self._on_disconnect)

    def uncancel(self) -> None:
        """The cancellation was ours and has been dealt with."""
        if self._task is not None:
            self._task.uncancel()

    def stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._receiving is not None:
            self._receiving.remove_done_callback(self._on_disconnect)
            self._receiving.cancel()

    def _on_disconnect(self, _: object) -> None:
        self._cancel_task("client")

    def _cancel_task(self, by: Literal["client", "deadline"]) -> None:
        if self.ended_by is None and self._task is not None:
            self.ended_by = by
            self._task.cancel()


def choose_request_id(given: bytes | None) -> str:
    """Return the client's `x-request-id` if it is at most 128 printable ASCII characters, or a fresh one."""
    if given is not None and 0 < len(given) <= 128 and given.isascii():
        name = given.decode("ascii")
        if name.isprintable():
            return name
    return uuid.uuid4().hex
