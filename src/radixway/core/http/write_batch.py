"""Writes of many connections, made together at the end of a turn of the event loop.

A write wakes the process that waits for it, which on a busy machine runs at once, in place of ours and over
our caches. Made one after the other when everything else is done, the writes of a turn cost a tenth less of
the whole CPU time of a request (docs/decisions/0020); one connection's go out as one.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary


class WriteBatch:
    """What connections write in this turn of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[asyncio.WriteTransport, bytes] = {}

    def write(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        """Write `data` to `transport` soon, after what was given before; nothing if it closes first."""
        waiting = self._waiting
        if transport in waiting:
            waiting[transport] += data
            return
        if not waiting:
            self._loop.call_soon(self.flush)
        waiting[transport] = data

    def write_at_once(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        """Write `data`, of a stream, after what was given before.

        A loop of uvloop gathers itself what is written while it reads its sockets, as chunks of streams are.
        """
        data = self._waiting.pop(transport, b"") + data
        if not transport.is_closing():
            transport.write(data)

    def flush(self) -> None:
        """Write now, as who closes a connection must."""
        waiting, self._waiting = self._waiting, {}
        for transport, data in waiting.items():
            if not transport.is_closing():
                transport.write(data)


_batches: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatch] = WeakKeyDictionary()


def write_batch_of(loop: asyncio.AbstractEventLoop) -> WriteBatch:
    """Return the one batch of `loop`."""
    batch = _batches.get(loop)
    if batch is None:
        batch = _batches[loop] = WriteBatch(loop)
    return batch
