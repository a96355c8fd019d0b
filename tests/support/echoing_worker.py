"""A worker that says what it was told, and one that does so in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

PATIENCE_S = 30


def event(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


async def answering(exchange: Exchange) -> None:
    """Says what it was told, whole or letter by letter; `break` breaks off, `hold` never ends."""
    body = exchange.json()
    said = body["messages"][-1]["content"] if "messages" in body else body.get("prompt") or body["text"]
    if not body.get("stream"):
        if said == "hold":
            await exchange.until_peer_leaves()
            return
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "text": said}
        reply = {"text": said} if exchange.path == "/generate" else {"choices": [choice]}
        await exchange.reply(200, json.dumps(reply).encode())
        return
    await exchange.begin_stream()
    if exchange.path == "/generate":
        for end in range(1, len(said) + 1):
            await exchange.chunk(b"data: " + json.dumps({"text": said[:end]}).encode() + b"\n\n")
    else:
        for letter in said:
            await exchange.chunk(event(letter))
    if said == "hold":
        await exchange.until_peer_leaves()
    elif said == "break":
        exchange.die()
    else:
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()


@contextmanager
def worker_in_a_thread() -> Iterator[ScriptedWorker]:
    """One that answers while the test's own thread waits."""
    ready, found, over = threading.Event(), [], []

    async def serve() -> None:
        async with scripted_worker(answering) as worker:
            over.extend((asyncio.get_running_loop(), asyncio.Event()))
            found.append(worker)
            ready.set()
            await over[1].wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield found[0]
    finally:
        over[0].call_soon_threadsafe(over[1].set)
        thread.join()
