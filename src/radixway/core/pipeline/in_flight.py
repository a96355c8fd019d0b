"""Requests under way by their ids, and which of them were asked to abort."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress

from radixway.core.component import Subject
from radixway.core.pipeline.request import Request


class RunningRequest:
    """One request, from its first attempt to the end of its answer; `AbortedRequests` makes it."""

    __slots__ = ("_abort_requested", "request_id", "rids")

    def __init__(self, rids: Sequence[str], request_id: str | None) -> None:
        self.rids = rids
        """Ids of the request at workers."""
        self.request_id = request_id
        """Id of the request at the gateway, and at workers that read `x-request-id`."""
        self._abort_requested = asyncio.Event()

    def has_id_prefix(self, rid: str) -> bool:
        """Return whether one of its names begins with `rid`."""
        names = self.rids if self.request_id is None else (*self.rids, self.request_id)
        return any(name.startswith(rid) for name in names)

    @property
    def is_abort_requested(self) -> bool:
        """True if an abort was asked for: an aborted answer is then final."""
        return self._abort_requested.is_set()

    def request_abort(self) -> None:
        """Ask the request to end; this ends a wait between two attempts."""
        self._abort_requested.set()

    async def wait_for_abort(self, seconds: float) -> None:
        """Wait for `seconds`, or until an abort is asked for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._abort_requested.wait()


class AbortedRequests:
    """The requests that run, by the ids (`rid`) that `/abort_request` may name; belongs to the event loop.

    Before `/abort_request` goes to workers, its requests are marked here: an aborted answer is then final.
    """

    def __init__(self) -> None:
        self._running: set[RunningRequest] = set()

    def __len__(self) -> int:
        return len(self._running)

    def register_request(self, rids: Sequence[str], request_id: str | None = None) -> RunningRequest:
        """Add a request under its `rids`; unregister it on every way out."""
        running = RunningRequest(rids, request_id)
        self._running.add(running)
        return running

    def unregister_request(self, running: RunningRequest) -> None:
        """Remove `running`, whose answer has ended. May be called again."""
        self._running.discard(running)

    def mark_aborted(self, rid: str) -> int:
        """Mark the requests whose id begins with `rid`, as SGLang does; return their number."""
        found = [running for running in self._running if running.has_id_prefix(rid)]
        for running in found:
            running.request_abort()
        return len(found)

    def mark_all_aborted(self) -> int:
        """Mark all requests; return their number."""
        for running in self._running:
            running.request_abort()
        return len(self._running)


class InFlightRequests:
    """Running requests by name, for `/abort_request` and erasures. Clients may give several of theirs one
    name.
    """

    def __init__(self) -> None:
        self._requests: dict[str, list[Request]] = {}

    def add_request(self, request: Request) -> None:
        """Add `request` under its id, and its rids as far as they are known."""
        for name in _names_of(request):
            self._requests.setdefault(name, []).append(request)

    def add_rids(self, request: Request) -> None:
        """Add `request`, which was added before its rids were known, under these too."""
        for name in _names_of(request):
            if name != request.id:
                self._requests.setdefault(name, []).append(request)

    def remove_request(self, request: Request) -> None:
        """Remove `request`, of which nothing more is stored. May be called for one that never began."""
        for name in _names_of(request):
            found = self._requests.get(name, [])
            if request in found:
                found.remove(request)
                if not found:
                    del self._requests[name]

    def mark_erased(self, subject: Subject) -> None:
        """Have nothing stored of requests of `subject` that are under way (`Journal.is_erased`).

        Their user and session may not be known yet: that is looked at when something is to be stored.
        """
        for request in {request for found in self._requests.values() for request in found}:
            if request.journal.tenant == subject.tenant:
                request.journal.erasures += (subject,)

    def __len__(self) -> int:
        """Number of names of requests under way."""
        return len(self._requests)

    def match_requests(self, name: str) -> list[Request]:
        """Return those whose `rid` or request id begins with `name`, as SGLang finds what to abort."""
        return [request for own, found in self._requests.items() if own.startswith(name) for request in found]


def _names_of(request: Request) -> Collection[str]:
    return {request.id, *request.rids} if request.rids else (request.id,)
