"""An answer as server-sent events, with signs of life while nothing is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from starlette.responses import StreamingResponse

from radixway.chat import events
from radixway.chat.records import Message
from radixway.chat.room import ChatRoom
from radixway.chat.tokens import Entry, without_restarts

_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
_PENDING_S = 1.0
"""Between two words on where it stands in its queue."""


def event_stream(
    room: ChatRoom, message: Message, entries: AsyncIterator[Entry], *, restarts: bool = True
) -> StreamingResponse:
    """Every entry, and until the first one where the answer stands in its queue.

    `restarts`: the client knows the event of answers that begin anew.
    """
    if not restarts:
        entries = without_restarts(entries, events.restarted())
    return StreamingResponse(_lines(room, message, entries), media_type="text/event-stream", headers=_HEADERS)


async def _lines(
    room: ChatRoom, message: Message, entries: AsyncIterator[Entry]
) -> AsyncGenerator[bytes, None]:
    queue = None if message.state.is_final else await room.jobs.queue_of(message.id)
    coming = asyncio.ensure_future(anext(entries, None))
    silent_s, said = 0.0, False
    try:
        while True:
            wait_s = room.config.ping_s if said else _PENDING_S
            done, _ = await asyncio.wait([coming], timeout=wait_s if said or silent_s else 0)
            if done:
                entry = coming.result()
                if entry is None:
                    return
                said, silent_s = True, 0.0
                yield b"id: %d\r\ndata: %b\r\n\r\n" % (entry.position, entry.event)
                coming = asyncio.ensure_future(anext(entries, None))
                continue
            silent_s += wait_s
            stands = None
            if queue is not None and not said:
                stands = await room.standings.waiting(message.id, queue, message.created_at)
            if stands is not None:
                yield b"data: %b\r\n\r\n" % events.pending(stands.position, stands.size)
            elif silent_s >= room.config.ping_s:
                silent_s = wait_s
                yield b": ping\r\n\r\n"
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        closing = getattr(entries, "aclose", None)
        if closing is not None:
            await closing()
