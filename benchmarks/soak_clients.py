"""Clients of a soak: good ones that check every answer, bad ones that leave, stall or send no HTTP.

Each coroutine in `CLIENTS` is one exchange; it counts in a `Tally` what became of it.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from fake_worker import MODEL, TEXT

ANSWER_TIMEOUT_S = 60.0
"""Longest that a client waits for anything; the server's own limits end all sooner."""
LARGE_BYTES = 16 * 2**20
"""Size of an answer of `/generate`, more than sockets hold."""
_PROMPTS = 2_000
"""Different prompts: few enough that the prefix index is full after the warm-up."""
_MAX_LOSSES_SHOWN = 20

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: soak\r\n"
MALFORMED: dict[bytes, int] = {
    HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n": 400,
    HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello": 400,
    HEAD + b"transfer-encoding: xchunked\r\n\r\n": 400,
    HEAD + b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n": 400,
    HEAD + b"x : y\r\n\r\n": 400,
    HEAD.replace(b"\r\n", b"\n") + b"\n": 400,
    HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n": 400,
    HEAD + b"x: y\r\n" * 10_000 + b"\r\n": 431,
    HEAD + b"x: " + b"y" * 200_000 + b"\r\n\r\n": 431,
    HEAD + b"content-length: 99999999999\r\n\r\n": 413,
    HEAD + b"content-length: 1\r\n\r\n{": 400,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 400,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": 400,
    b"GET /nothing HTTP/1.1\r\nhost: soak\r\nconnection: close\r\n\r\n": 404,
    b"GET /health HTTP/1.1\r\nhost: soak\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"content-length: 5\r\n\r\nhello": 400,
}
"""Requests that are none, and the status that each must get."""


class LostAnswerError(Exception):
    """A client did not get what it must get; the message says what it got instead."""


@dataclass(slots=True)
class Tally:
    """What became of all exchanges."""

    outcomes: Counter[str] = field(default_factory=Counter)
    losses: list[str] = field(default_factory=list)
    lost: int = 0

    def count(self, outcome: str) -> None:
        self.outcomes[outcome] += 1

    def count_loss(self, client: str, reason: str) -> None:
        """Count an exchange that went wrong, and keep the first few reasons."""
        self.lost += 1
        if len(self.losses) < _MAX_LOSSES_SHOWN:
            self.losses.append(f"{client}: {reason}")


@dataclass(slots=True)
class Target:
    """A gateway to be asked, and where its answers are counted."""

    host: str
    port: int
    tally: Tally

    async def connect(self, receive_buffer_bytes: int | None = None) -> Connection:
        sock = socket.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (self.host, self.port))
            limit = 2**16 if receive_buffer_bytes is None else receive_buffer_bytes
            return Connection(*await asyncio.open_connection(sock=sock, limit=limit))
        except BaseException:
            sock.close()
            raise


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool
    """The body ended where its framing says so."""

    def error_code(self) -> str:
        """The code of an error in the body; raises LostAnswerError if there is none."""
        try:
            return str(json.loads(self.body)["error"]["code"])
        except (ValueError, LookupError, TypeError):
            raise LostAnswerError(f"{self.status} without a reason: {self.body[:200]!r}") from None


@dataclass(slots=True)
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    def abort(self) -> None:
        """Leave with RST."""
        sock = self.writer.get_extra_info("socket")
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def answer(self) -> Answer:
        """The next answer. Raises LostAnswerError if none comes."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise LostAnswerError(f"no answer ({error!r})") from None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body, is_whole = bytearray(), True
        try:
            if headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readuntil(b"\r\n"), 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readexactly(2)
            else:
                body += await self.reader.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            is_whole = False
        return Answer(int(first.split(" ")[1]), headers, bytes(body), is_whole)

    async def closed(self) -> None:
        """Wait until the server has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(2**16):
                pass


def chat(stream: bool = False, *, is_small: bool = False) -> bytes:
    """A chat completion of one of the prompts, of 1 KB or, one in 20 unless `is_small`, 40 KB."""
    prompt = random.randrange(_PROMPTS)
    text = f"prompt {prompt} " + "word " * (8_000 if prompt % 20 == 0 and not is_small else 200)
    fields = {"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": stream}
    return framed(json.dumps(fields).encode())


def framed(body: bytes, path: bytes = b"/v1/chat/completions") -> bytes:
    """A request with this body, one in four in chunks."""
    head = b"POST " + path + b" HTTP/1.1\r\nhost: soak\r\ncontent-type: application/json\r\n"
    if random.random() < 0.75:
        return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)
    half = len(body) // 2
    parts = (body[:half], body[half:])
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return head + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def check_whole(answer: Answer) -> str:
    """Check a whole chat completion; return its outcome. Raises LostAnswerError."""
    if not answer.is_whole:
        raise LostAnswerError(f"an answer of {answer.status} ends after {len(answer.body)} bytes")
    if answer.status != 200:
        if answer.status not in (429, 503):
            raise LostAnswerError(f"{answer.status}: {answer.body[:200]!r}")
        return f"refused, {answer.status} {answer.error_code()}"
    said = json.loads(answer.body)["choices"][0]["message"]["content"]
    if said != TEXT:
        raise LostAnswerError(f"a wrong text: {said[:100]!r}")
    return "whole answers"


def check_stream(answer: Answer) -> str:
    """Check a streamed chat completion: whole, or cut with a reason. Raises LostAnswerError."""
    if answer.status != 200:
        return check_whole(answer)
    if not answer.is_whole:
        raise LostAnswerError(f"a stream ends after {len(answer.body)} bytes")
    said, events = "", answer.body.split(b"\n\n")
    for event in events[:-1]:
        data = event.removeprefix(b"data: ")
        if data == b"[DONE]":
            break
        message = json.loads(data)
        if "error" in message:
            if not TEXT.startswith(said):
                raise LostAnswerError(f"a wrong text of {len(said)} characters before an error: {said!r}")
            return f"streams cut, {message['error']['code']}"
        said += message["choices"][0]["delta"]["content"]
    else:
        raise LostAnswerError(f"a stream without an end: {answer.body[-100:]!r}")
    if said != TEXT:
        raise LostAnswerError(f"a stream of {len(said)} characters instead of {len(TEXT)}")
    return "whole streams"


# ---------------------------------------------------------------- clients


async def ask_whole(target: Target) -> None:
    """Several requests, one after the other."""
    async with await target.connect() as connection:
        for _ in range(random.randrange(1, 10)):
            await connection.send(chat())
            target.tally.count(check_whole(await connection.answer()))


async def ask_streams(target: Target) -> None:
    """Some streams, one after the other."""
    async with await target.connect() as connection:
        for _ in range(random.randrange(1, 4)):
            await connection.send(chat(stream=True))
            target.tally.count(check_stream(await connection.answer()))


async def pipeline(target: Target) -> None:
    """Requests of all kinds at once, whose answers come in their order."""
    kinds = random.choices(("whole", "stream", "health"), k=random.randrange(2, 17))
    requests = {
        "whole": lambda: chat(is_small=True),
        "stream": lambda: chat(stream=True, is_small=True),
        "health": lambda: b"GET /health HTTP/1.1\r\nhost: soak\r\n\r\n",
    }
    async with await target.connect() as connection:
        await connection.send(b"".join(requests[kind]() for kind in kinds))
        for kind in kinds:
            answer = await connection.answer()
            if kind == "health":
                if answer.status not in (200, 503) or b'"workers"' not in answer.body:
                    raise LostAnswerError(f"health, in its turn: {answer.status} {answer.body[:100]!r}")
                target.tally.count("healths")
            else:
                target.tally.count((check_whole if kind == "whole" else check_stream)(answer))


async def send_bytewise(target: Target) -> None:
    """A request in small pieces."""
    raw = chat()
    async with await target.connect() as connection:
        step = max(1, len(raw) // random.randrange(2, 40))
        for begin in range(0, len(raw), step):
            await connection.send(raw[begin : begin + step])
            await asyncio.sleep(0.002)
        target.tally.count(check_whole(await connection.answer()))


async def leave(target: Target) -> None:
    """Leaves at some point: within its request, before the answer, or within a stream."""
    raw = chat(stream=random.random() < 0.8)
    async with await target.connect() as connection:
        place = random.random()
        await connection.send(raw if place > 0.3 else raw[: random.randrange(len(raw))])
        if place > 0.5:
            await connection.reader.read(random.randrange(1, 2_000))
        if random.random() < 0.5:
            connection.abort()
    target.tally.count("clients that left")


async def send_garbage(target: Target) -> None:
    """What is no request, alone or behind one."""
    raw, status = random.choice(list(MALFORMED.items()))
    async with await target.connect() as connection:
        if random.random() < 0.3:
            await connection.send(chat())
            target.tally.count(check_whole(await connection.answer()))
        await connection.send(raw)
        answer = await connection.answer()
        if answer.status != status:
            raise LostAnswerError(f"{raw[:60]!r} was answered with {answer.status} instead of {status}")
        if b"content-length: 1\r\n" not in raw:
            await connection.closed()
    target.tally.count("refused garbage")


async def stay_half_open(target: Target) -> None:
    """Sends nothing, a part of a request, or a request and its EOF; the server must end the connection."""
    raw = chat()
    part = random.choice([0, 1, random.randrange(2, len(raw)), len(raw)])
    async with await target.connect() as connection:
        await connection.send(raw[:part])
        if part == len(raw):
            with suppress(OSError):
                connection.writer.write_eof()
        said = b""
        with suppress(ConnectionError):
            while piece := await connection.reader.read(2**16):
                said += piece
        if said and part != len(raw) and b" 408 " not in said:
            raise LostAnswerError(f"half a request was answered: {said[:200]!r}")
    target.tally.count("half-open connections")


async def read_slowly(target: Target) -> None:
    """Reads a large answer slowly, to its end; or not at all, until the server has cut it off."""
    async with await target.connect(receive_buffer_bytes=16_384) as connection:
        await connection.send(framed(b'{"text": "large"}', b"/generate"))
        if random.random() < 0.5:
            await asyncio.sleep(10)
            answer = await connection.answer()
            if answer.is_whole or answer.status != 200:
                raise LostAnswerError("an answer waited for a client that did not read")
            target.tally.count("cut readers")
            return
        head = await connection.reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise LostAnswerError(f"a large answer was refused: {head[:100]!r}")
        size = 0
        while size < LARGE_BYTES:
            piece = await connection.reader.read(2**16)
            if not piece:
                raise LostAnswerError(f"a slow reader got {size} bytes")
            size += len(piece)
            await asyncio.sleep(0.001)
    target.tally.count("slow readers")


async def look(target: Target) -> None:
    """What people and Prometheus look at."""
    path = random.choice([b"/metrics", b"/health", b"/requests?limit=20", b"/list_workers", b"/prefixes"])
    async with await target.connect() as connection:
        await connection.send(b"GET " + path + b" HTTP/1.1\r\nhost: soak\r\nconnection: close\r\n\r\n")
        answer = await connection.answer()
        if answer.status != 200 or not answer.is_whole:
            raise LostAnswerError(f"{path.decode()}: {answer.status} {answer.body[:100]!r}")
    target.tally.count("looks")


CLIENTS: dict[Callable[[Target], Awaitable[None]], int] = {
    ask_whole: 6,
    ask_streams: 8,
    pipeline: 2,
    send_bytewise: 2,
    leave: 4,
    send_garbage: 2,
    stay_half_open: 3,
    read_slowly: 2,
    look: 1,
}
"""Each kind of client, and how many of it are there at once."""


async def run_client(
    client: Callable[[Target], Awaitable[None]], target: Target, over: asyncio.Event
) -> None:
    """Let `client` do its exchange again and again until it is `over`."""
    while not over.is_set():
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await client(target)
        except LostAnswerError as error:
            target.tally.count_loss(client.__name__, str(error))
        except (OSError, TimeoutError, ValueError, LookupError, asyncio.LimitOverrunError) as error:
            target.tally.count_loss(client.__name__, repr(error))
        await asyncio.sleep(random.uniform(0.0, 0.1))
