"""Which running requests somebody has asked to abort: what ends on purpose is not taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol


class AbortAtWorker(Protocol):
    """How a worker is told that nobody waits for a request any more; transports implement it."""

    def __call__(self, worker: str, rid: str) -> None:
        """Tell the worker of that name, some time soon. Never raises, never waits."""
        ...


class RunningRequest:
    """One request, from its first attempt to the end of its answer; made by `AbortedRequests.begin`."""

    __slots__ = ("_asked", "rids")

    def __init__(self, rids: Sequence[str]) -> None:
        self.rids = rids
        self._asked = asyncio.Event()

    @property
    def abort_asked(self) -> bool:
        """Somebody asked for its end: an aborted answer is the answer."""
        return self._asked.is_set()

    def ask_abort(self) -> None:
        """Its end is wanted; a wait between two attempts is over."""
        self._asked.set()

    async def wait(self, seconds: float) -> None:
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

    def begin(self, rids: Sequence[str]) -> RunningRequest:
        """A request begins; `end` it on every way out."""
        running = RunningRequest(rids)
        self._running.add(running)
        return running

    def end(self, running: RunningRequest) -> None:
        """Its answer has ended. May be called again."""
        self._running.discard(running)

    def abort(self, rid: str) -> int:
        """Mark the requests whose id begins with `rid`, which is how SGLang finds them; how many there are."""
        found = [running for running in self._running if any(own.startswith(rid) for own in running.rids)]
        for running in found:
            running.ask_abort()
        return len(found)

    def abort_all(self) -> int:
        """Mark all; how many there are."""
        for running in self._running:
            running.ask_abort()
        return len(self._running)
