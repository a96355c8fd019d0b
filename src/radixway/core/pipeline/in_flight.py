"""Which running requests somebody has asked to abort: what ends on purpose is not taken up again.

The requests that the gateway has in hand, by what their clients call them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from radixway.core.pipeline.request import Request


class RunningRequest:
    """One request, from its first attempt to the end of its answer; made by
    `AbortedRequests.register_request`.
    """

    __slots__ = ("_asked", "request_id", "rids")

    def __init__(self, rids: Sequence[str], request_id: str | None) -> None:
        self.rids = rids
        """What workers know it by."""
        self.request_id = request_id
        """What the gateway knows it by, as do workers that read `x-request-id`."""
        self._asked = asyncio.Event()

    def has_id_prefix(self, rid: str) -> bool:
        """Whether one of its names begins so."""
        names = self.rids if self.request_id is None else (*self.rids, self.request_id)
        return any(name.startswith(rid) for name in names)

    @property
    def is_abort_requested(self) -> bool:
        """Somebody asked for its end: an aborted answer is the answer."""
        return self._asked.is_set()

    def request_abort(self) -> None:
        """Its end is wanted; a wait between two attempts is over."""
        self._asked.set()

    async def wait_for_abort(self, seconds: float) -> None:
        """Wait so long, or until its end is asked for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._asked.wait()


class AbortedRequests:
    """The requests that run, by the ids (`rid`) that `/abort_request` may name; belongs to the event loop.

    Whoever fans `/abort_request` out to workers calls `abort` or `abort_all` here first, so that the aborted
    answers that come back are known to be wanted.
    """

    def __init__(self) -> None:
        self._running: set[RunningRequest] = set()

    def __len__(self) -> int:
        return len(self._running)

    def register_request(self, rids: Sequence[str], request_id: str | None = None) -> RunningRequest:
        """A request begins; `end` it on every way out."""
        running = RunningRequest(rids, request_id)
        self._running.add(running)
        return running

    def unregister_request(self, running: RunningRequest) -> None:
        """Its answer has ended. May be called again."""
        self._running.discard(running)

    def mark_aborted(self, rid: str) -> int:
        """Mark the requests whose id begins with `rid`, as SGLang finds them; how many there are."""
        found = [running for running in self._running if running.has_id_prefix(rid)]
        for running in found:
            running.request_abort()
        return len(found)

    def mark_all_aborted(self) -> int:
        """Mark all; how many there are."""
        for running in self._running:
            running.request_abort()
        return len(self._running)


class InFlightRequests:
    """Who has which request, for `/abort_request`. Clients may call several of theirs the same."""

    def __init__(self) -> None:
        self._requests: dict[str, list[Request]] = {}

    def add_request(self, request: Request) -> None:
        """It is known what the request is called."""
        for name in {request.id, *request.rids}:
            self._requests.setdefault(name, []).append(request)

    def remove_request(self, request: Request) -> None:
        """Its answer has ended, however. May be called for one that never began."""
        for name in {request.id, *request.rids}:
            found = self._requests.get(name, [])
            if request in found:
                found.remove(request)
                if not found:
                    del self._requests[name]

    def __len__(self) -> int:
        """Names that something in hand has."""
        return len(self._requests)

    def match_requests(self, name: str) -> list[Request]:
        """Those whose `rid` or request id begins with `name`, which is how SGLang finds what to abort."""
        return [request for own, found in self._requests.items() if own.startswith(name) for request in found]
