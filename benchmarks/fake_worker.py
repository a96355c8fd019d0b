"""A worker without a model: answers like an inference server, as fast as Python can.

One process listens on several ports, each of them one worker. It speaks just enough of the OpenAI and
SGLang surfaces for a gateway to accept it, and it costs so little that the gateway beside it is what a
benchmark sees. A stream goes out as an engine with continuous batching would send it: the head at once, the
first chunk in the next turn of the event loop, and then, at every decode step (`--step-ms`), one chunk for
each running stream, each in a write of its own. `[DONE]` and the end of the body take one more step. With
`--cut-every N` the connection of each Nth stream is reset in its middle.

    python benchmarks/fake_worker.py --ports 9001 9002
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httptools
import uvloop

MODEL = "fake-model"
CHUNKS = 50
WORDS = [f" word{i}" for i in range(CHUNKS)]
TEXT = "".join(WORDS)
"""What every answer says, for the load generator to compare with; `max_tokens` shortens a stream."""

_USAGE = {"prompt_tokens": 256, "completion_tokens": CHUNKS, "total_tokens": 256 + CHUNKS}


def _reply(status: str, body: bytes, content_type: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def chat_body() -> bytes:
    """The body of a whole chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
    return _json(
        {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [choice],
            "usage": _USAGE,
        }
    )


def chat_events() -> list[bytes]:
    """The server-sent events of a streamed chat completion: one for each word, then `[DONE]`."""
    events = []
    for i, word in enumerate(WORDS):
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": word} if i == 0 else {"content": word},
            "finish_reason": "stop" if i == CHUNKS - 1 else None,
        }
        chunk = {
            "id": "chatcmpl-0",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": MODEL,
            "choices": [choice],
        }
        events.append(b"data: " + _json(chunk) + b"\n\n")
    return [*events, b"data: [DONE]\n\n"]


def completion_body() -> bytes:
    """The body of a whole text completion."""
    return _json(_COMPLETED)


def _completion_events() -> list[bytes]:
    events = []
    for i, word in enumerate(WORDS):
        choice = {"index": 0, "text": word, "finish_reason": "stop" if i == CHUNKS - 1 else None}
        chunk = {
            "id": "cmpl-0",
            "object": "text_completion",
            "created": 0,
            "model": MODEL,
            "choices": [choice],
        }
        events.append(b"data: " + _json(chunk) + b"\n\n")
    return [*events, b"data: [DONE]\n\n"]


def _generate_events() -> list[bytes]:
    events, text = [], ""
    for word in WORDS:
        text += word
        events.append(b"data: " + _json({"text": text, "meta_info": {"id": "0"}}) + b"\n\n")
    return [*events, b"data: [DONE]\n\n"]


def _as_http_chunks(events: list[bytes]) -> list[bytes]:
    chunks = [b"%x\r\n%s\r\n" % (len(event), event) for event in events]
    chunks[-1] += b"0\r\n\r\n"
    return chunks


_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_GENERATED = {
    "text": TEXT,
    "meta_info": {
        "id": "0",
        "finish_reason": {"type": "stop"},
        "prompt_tokens": 256,
        "completion_tokens": CHUNKS,
    },
}
_COMPLETED = {
    "id": "cmpl-0",
    "object": "text_completion",
    "created": 0,
    "model": MODEL,
    "choices": [{"index": 0, "text": TEXT, "finish_reason": "stop"}],
    "usage": _USAGE,
}
_INFO = {"model_path": MODEL, "model_id": MODEL, "served_model_name": MODEL, "is_generation": True}
_MODELS = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "nobody"}]}

_WHOLE = {
    b"/v1/chat/completions": _reply("200 OK", chat_body()),
    b"/v1/completions": _reply("200 OK", completion_body()),
    b"/generate": _reply("200 OK", _json(_GENERATED)),
}
_STREAMED = {
    b"/v1/chat/completions": _as_http_chunks(chat_events()),
    b"/v1/completions": _as_http_chunks(_completion_events()),
    b"/generate": _as_http_chunks(_generate_events()),
}
_GET = {
    b"/health": _reply("200 OK", b"{}"),
    b"/health_generate": _reply("200 OK", b"{}"),
    b"/v1/models": _reply("200 OK", _json(_MODELS)),
    b"/get_model_info": _reply("200 OK", _json(_INFO)),
    b"/model_info": _reply("200 OK", _json(_INFO)),
    b"/get_server_info": _reply("200 OK", _json(_INFO)),
    b"/server_info": _reply("200 OK", _json(_INFO)),
}
_CUT = b"cut"
"""Stands for the end of a connection among the chunks of a stream."""
_NOT_FOUND = _reply("404 Not Found", b'{"error":{"message":"no such path"}}')
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class DecodeLoop:
    """The clock of a pretended engine: at each step every running stream gets its next chunk."""

    def __init__(self, loop: asyncio.AbstractEventLoop, step_s: float, cut_every: int = 0) -> None:
        self._loop, self._step_s = loop, step_s
        self._cut_every, self._streams = cut_every, 0
        self._running: list[tuple[Connection, Iterator[bytes]]] = []
        self._ticking = False

    def add(self, connection: Connection, chunks: list[bytes]) -> None:
        """Send the first chunk in the next loop turn and the others step by step."""
        self._streams += 1
        if self._cut_every and self._streams % self._cut_every == 0:
            chunks = [*chunks[: len(chunks) // 2], _CUT]
        self._loop.call_soon(self._first, connection, iter(chunks))

    def _first(self, connection: Connection, chunks: Iterator[bytes]) -> None:
        if connection.send_chunk(chunks):
            self._running.append((connection, chunks))
            if not self._ticking:
                self._ticking = True
                self._loop.call_later(self._step_s, self._step)

    def _step(self) -> None:
        self._running = [(conn, chunks) for conn, chunks in self._running if conn.send_chunk(chunks)]
        self._ticking = bool(self._running)
        if self._ticking:
            self._loop.call_later(self._step_s, self._step)


class Connection(asyncio.Protocol):
    """One connection: parses requests, looks the answer up, writes it."""

    def __init__(self, decode: DecodeLoop) -> None:
        self._decode = decode
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._close(b"")
        except httptools.HttpParserError:  # a probe with another protocol, such as an HTTP/2 preface
            self._close(_BAD_REQUEST)

    def on_url(self, url: bytes) -> None:
        self._url = url
        self._body.clear()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._transport is None:
            return
        path = self._url.partition(b"?")[0]
        if path in _WHOLE:
            asked = json.loads(self._body or b"{}")
            if asked.get("stream"):
                *chunks, done = _STREAMED[path]
                self._transport.write(_STREAM_HEAD)
                limit = asked.get("max_tokens") or asked.get("max_completion_tokens")
                self._decode.add(self, [*chunks[:limit], done])
                return
        self._transport.write(_WHOLE.get(path) or _GET.get(path, _NOT_FOUND))
        if not self._parser.should_keep_alive():
            self._transport.close()

    def send_chunk(self, chunks: Iterator[bytes]) -> bool:
        """Write the next chunk; False once the stream is over or its client has gone."""
        if self._transport is None:
            return False
        chunk = next(chunks, None)
        if chunk is _CUT:
            self._transport.abort()
        elif chunk is not None:
            self._transport.write(chunk)
        elif not self._parser.should_keep_alive():
            self._transport.close()
        return chunk is not None

    def _close(self, last_words: bytes) -> None:
        if self._transport is not None:
            self._transport.write(last_words)
            self._transport.close()


async def serve(ports: list[int], step_s: float, cut_every: int = 0) -> None:
    """Listen on 127.0.0.1 at each of `ports` until cancelled; prints `ready` once all of them answer."""
    loop = asyncio.get_running_loop()
    decode = DecodeLoop(loop, step_s, cut_every)
    servers = [await loop.create_server(lambda: Connection(decode), "127.0.0.1", port) for port in ports]
    print("ready", flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ports", type=int, nargs="+", required=True, help="one worker on each")
    parser.add_argument("--step-ms", type=float, default=4.0, help="pause between two chunks of a stream")
    parser.add_argument("--cut-every", type=int, default=0, metavar="N", help="reset each Nth stream halfway")
    parser.add_argument("--generated", type=Path, metavar="FILE", help="what /generate is answered with")
    args = parser.parse_args()
    if args.generated:
        _WHOLE[b"/generate"] = _reply("200 OK", args.generated.read_bytes())
    uvloop.run(serve(args.ports, args.step_ms / 1000, args.cut_every))


if __name__ == "__main__":
    main()
