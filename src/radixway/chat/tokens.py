"""Token logs: what an answer has said so far, for any number of listeners, from any position.

Positions count from 1, and are the `id:` of server-sent events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of an answer."""

    position: int
    event: bytes
    """JSON, as listeners are sent it."""


async def without_restarts(entries: AsyncIterator[Entry], restart: bytes) -> AsyncIterator[Entry]:
    """For listeners that know nothing of answers that begin anew: once one does, they hear its end alone.

    `restart`: the event that says so. What they heard before it is void, and nothing can take it back.
    """
    last: Entry | None = None
    void = False
    try:
        async for entry in entries:
            void = void or entry.event == restart
            if not void:
                yield entry
            last = entry
        if void and last is not None and last.event != restart:
            yield last
    finally:
        closing = getattr(entries, "aclose", None)
        if closing is not None:
            await closing()


class TokenLog(Protocol):
    """The logs of all answers under way, and of those that ended not long ago."""

    async def append(self, message_id: str, events: Sequence[bytes]) -> None:
        """Add to an answer's log, which begins with its first events."""
        ...

    async def restart(self, message_id: str, event: bytes) -> None:
        """What was said is void; whoever heard it is told by `event`, whoever comes later hears neither."""
        ...

    async def end(self, message_id: str, event: bytes) -> None:
        """The last event. The log is kept for a while, and then forgotten."""
        ...

    async def knows(self, message_id: str) -> bool:
        """Whether there is anything to hear."""
        ...

    async def forget(self, message_ids: Collection[str]) -> None:
        """These logs are gone; whoever listens hears no more."""
        ...

    def listen(self, message_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """Every event after a position, in order, those to come included; ends with the log."""
        ...


@dataclass(slots=True)
class _Log:
    """Of one answer."""

    events: list[bytes] = field(default_factory=list)
    begin: int = 0
    """Where the attempt that counts begins."""
    ended: bool = False
    listeners: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, events: Sequence[bytes]) -> None:
        self.events += events
        self.changed.set()
        self.changed = asyncio.Event()


class MemoryLog:
    """A `TokenLog` for one process. Belongs to one event loop."""

    def __init__(self, *, kept_s: float = 60.0) -> None:
        """`kept_s`: how long a log can be heard after its end."""
        self._kept_s = kept_s
        self._logs: dict[str, _Log] = {}

    def __len__(self) -> int:
        return len(self._logs)

    async def append(self, message_id: str, events: Sequence[bytes]) -> None:
        """See `TokenLog`."""
        self._open(message_id).add(events)

    async def restart(self, message_id: str, event: bytes) -> None:
        """See `TokenLog`."""
        log = self._open(message_id)
        log.begin = len(log.events) + 1
        log.add([event])

    async def end(self, message_id: str, event: bytes) -> None:
        """See `TokenLog`."""
        log = self._open(message_id)
        if log.ended:
            return
        log.ended = True
        log.add([event])
        asyncio.get_running_loop().call_later(self._kept_s, self._logs.pop, message_id, None)

    async def knows(self, message_id: str) -> bool:
        """See `TokenLog`."""
        return message_id in self._logs

    async def forget(self, message_ids: Collection[str]) -> None:
        """See `TokenLog`."""
        for message_id in message_ids:
            log = self._logs.pop(message_id, None)
            if log is not None:
                log.ended = True
                log.changed.set()

    async def listen(self, message_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """See `TokenLog`. A log that has not begun yet is waited for."""
        log = self._open(message_id)
        log.listeners += 1
        try:
            position = after or log.begin
            while True:
                changed, ended = log.changed, log.ended
                for event in log.events[position:]:
                    position += 1
                    yield Entry(position, event)
                if ended:
                    return
                if position >= len(log.events):
                    await changed.wait()
        finally:
            log.listeners -= 1
            if not log.events and not log.listeners:
                self._logs.pop(message_id, None)

    def _open(self, message_id: str) -> _Log:
        log = self._logs.get(message_id)
        if log is None:
            log = self._logs[message_id] = _Log()
        return log
