"""A load generator in a process of its own: closed loop, keep-alive, every answer checked.

Reads one JSON job a line from standard input, writes its result into the file that the job names and says
so; `Load` is its handle in the benchmark's process. The request bytes are built before the clock starts; the
answers are compared with what the fake worker says, byte for byte first, by meaning where a gateway has
written the JSON anew.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import httptools
import uvloop

from fake_worker import CHUNKS, MODEL, TEXT, WORDS, chat_body, chat_events

_WORDS = (
    "the",
    "request",
    "gateway",
    "token",
    "prefix",
    "block",
    "worker",
    "answers",
    "keeps",
    "a",
    "of",
    "and",
)


@dataclass(slots=True)
class Job:
    """What to send: `requests` in all over `connections` connections to 127.0.0.1:`port`."""

    port: int
    requests: int
    connections: int
    prompt_bytes: int
    stream: bool = False
    chunks: int = CHUNKS
    seed: int = 0
    deadline_s: float = 120.0
    headers: dict[str, str] = field(default_factory=dict)
    path: str = "/v1/chat/completions"
    bodies_file: str = ""
    """JSON bodies to send, one a line, in this order; without it, unique chat completions."""
    answer_file: str = ""
    """What each of these is answered with, byte for byte."""
    result_file: str = ""


@dataclass(slots=True)
class Result:
    """What came back. Times are seconds from sending a request to its first body byte."""

    ok: int
    errors: dict[str, int]
    wall_s: float
    first_byte_s: list[float]
    reads: int
    """How often the kernel handed us data; near 51 a stream when the chunks arrive one by one."""


def build_requests(job: Job) -> list[bytes]:
    """The bytes of every request of a job; each prompt is unique from its first words on."""
    if job.bodies_file:
        return [_request(job, body) for body in Path(job.bodies_file).read_bytes().splitlines()]
    rng = random.Random(f"{job.seed} {job.prompt_bytes} {job.stream}")
    filler = " ".join(rng.choices(_WORDS, k=job.prompt_bytes // 2))
    requests = []
    for _ in range(job.requests):
        start = rng.randrange(max(1, len(filler) - job.prompt_bytes))
        prompt = f"{rng.getrandbits(64):016x} {filler[start:]}"[: job.prompt_bytes]
        document = {
            "model": MODEL,
            "messages": [
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": prompt},
            ],
            "temperature": 0.7,
            "max_tokens": job.chunks,
            "stream": job.stream,
        }
        requests.append(_request(job, json.dumps(document).encode()))
    return requests


def _request(job: Job, body: bytes) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in job.headers.items())
    head = (
        f"POST {job.path} HTTP/1.1\r\nhost: 127.0.0.1:{job.port}\r\n{extra}"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def expected_body(job: Job) -> bytes:
    """What the worker answers to each request of a job."""
    if job.answer_file:
        return Path(job.answer_file).read_bytes()
    if not job.stream:
        return chat_body()
    *events, done = chat_events()
    return b"".join([*events[: job.chunks], done])


def fault_in(body: bytes, job: Job) -> str | None:
    """What is wrong with an answer's body, in words; None if it means what the worker said."""
    if job.answer_file:
        return "another answer than the worker's"
    try:
        if not job.stream:
            text = json.loads(body)["choices"][0]["message"]["content"]
            return None if text == TEXT else "another text than the worker's"
        events = [event.removeprefix(b"data: ") for event in body.split(b"\n\n") if event]
        if not events or events[-1].strip() != b"[DONE]":
            return "a stream without its end"
        chunks = [json.loads(event) for event in events[:-1]]
        parts = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "a body that cannot be read"
    return None if "".join(parts) == "".join(WORDS[: job.chunks]) else "lost, doubled or reordered chunks"


class _Run:
    """One job under way: what its connections share."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.pending: Iterator[bytes] = iter(build_requests(job))
        self.expected = expected_body(job)
        self.unanswered = job.requests
        self.errors: Counter[str] = Counter()
        self.first_byte_s: list[float] = []
        self.reads = 0
        self.transports: set[asyncio.Transport] = set()
        self.finished = asyncio.get_running_loop().create_future()

    def count(self, fault: str | None, first_byte_s: float) -> None:
        if fault is None:
            self.first_byte_s.append(first_byte_s)
        else:
            self.errors[fault] += 1
        self.unanswered -= 1
        if self.unanswered == 0 and not self.finished.done():
            self.finished.set_result(None)


class _Connection(asyncio.Protocol):
    """Sends a request, waits for its whole answer, sends the next."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._transport: asyncio.Transport | None = None
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        self._run.transports.add(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = httptools.HttpResponseParser(self)
        self._next()

    def _next(self) -> None:
        request = next(self._run.pending, None)
        if request is None or self._transport is None:
            return
        self._busy, self._status, self._first_byte = True, 0, 0.0
        self._body: list[bytes] = []
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._run.reads += 1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._done(f"not HTTP: {error}")
            if self._transport is not None:
                self._transport.close()

    def on_body(self, body: bytes) -> None:
        if not self._body:
            self._first_byte = time.perf_counter()
        self._body.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self._body)
        status = self._parser.get_status_code()
        if status != 200:
            self._done(f"status {status}: {body[:120]!r}")
        else:
            self._done(None if body == self._run.expected else fault_in(body, self._run.job))
        if self._parser.should_keep_alive():
            self._next()
        elif self._transport is not None:
            self._transport.close()

    def _done(self, fault: str | None) -> None:
        if self._busy:
            self._busy = False
            self._run.count(fault, self._first_byte - self._sent)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._run.transports.discard(self._transport)
            self._transport = None
        self._done("the connection was closed before the answer was complete")
        if self._run.unanswered and not self._run.finished.done():
            asyncio.ensure_future(_connect(self._run))  # noqa: RUF006 - the job's end awaits the answers


async def _connect(run: _Run) -> None:
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(lambda: _Connection(run), "127.0.0.1", run.job.port)
    except OSError as error:
        for _ in run.pending:
            run.count(f"cannot connect: {error}", 0)


async def carry_out(job: Job) -> Result:
    """Run one job to its end or its deadline."""
    run = _Run(job)
    begin = time.perf_counter()
    await asyncio.gather(*(_connect(run) for _ in range(min(job.connections, job.requests))))
    try:
        await asyncio.wait_for(run.finished, job.deadline_s)
    except TimeoutError:
        run.errors[f"unanswered after {job.deadline_s:g} s"] += run.unanswered
    wall_s = time.perf_counter() - begin
    for transport in list(run.transports):
        transport.abort()
    return Result(len(run.first_byte_s), dict(run.errors), wall_s, run.first_byte_s, run.reads)


class Load:
    """The load generator's process, as the benchmark sees it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, job: Job) -> Result:
        """Carry out one job in that process and return what came back."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.NamedTemporaryFile() as file:
            job.result_file = file.name
            self.process.stdin.write(json.dumps(asdict(job)) + "\n")
            self.process.stdin.flush()
            if not self.process.stdout.readline():
                raise RuntimeError(f"the load generator ended with {self.process.wait()}")
            return Result(**json.load(file))


def main() -> None:
    for line in sys.stdin:
        job = Job(**json.loads(line))
        Path(job.result_file).write_text(json.dumps(asdict(uvloop.run(carry_out(job)))))
        print("done", flush=True)


if __name__ == "__main__":
    main()
