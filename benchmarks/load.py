"""A load generator in a process of its own: closed loop, keep-alive, every answer checked.

Reads one JSON job a line from standard input, writes its result into the file that the job names and says
so; `Load` is its handle in the benchmark's process. All but a number at the start of each prompt is built
before the clock starts, and no garbage is collected here while it runs. The answers are compared with what
the fake worker says, byte for byte first, by meaning where a gateway has written the JSON anew.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
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
_MAX_RIGHT_BODIES = 8
_NUMBER = "#" * 16
_TEXTS = 256
"""Different texts that follow the numbers of a job's prompts."""
_STEP = 0x9E3779B97F4A7C15
"""Odd, so that its multiples are different numbers of 64 bits, and no two neighbours look alike."""


@dataclass(slots=True)
class Job:
    """What to send over `connections` to 127.0.0.1:`port`: so many `requests`, or as many as in `seconds`."""

    port: int
    requests: int
    connections: int
    prompt_bytes: int
    stream: bool = False
    chunks: int = CHUNKS
    seconds: float = 0.0
    """How long requests are begun; 0: until all `requests` are."""
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
    """What came back, times in seconds from sending a request: to its first body byte, and to its end."""

    ok: int
    errors: dict[str, int]
    wall_s: float
    first_byte_s: list[float]
    latency_s: list[float]
    reads: int
    """How often the kernel handed us data; near 51 a stream when the chunks arrive one by one."""


def build_requests(job: Job) -> Iterator[bytes]:
    """The bytes of a job's requests, without end if it has only `seconds`; all prompts begin differently."""
    if job.bodies_file:
        return iter([_request(job, body) for body in Path(job.bodies_file).read_bytes().splitlines()])
    numbered = _numbered_requests(job, _request_halves(job))
    return itertools.islice(numbered, job.requests) if job.requests else numbered


def _numbered_requests(job: Job, halves: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    number = random.Random(f"{job.seed} {job.prompt_bytes} {job.stream} {job.connections}").getrandbits(64)
    for before, after in itertools.cycle(halves):
        number = (number + _STEP) & 0xFFFFFFFFFFFFFFFF
        yield b"%b%016x%b" % (before, number, after)


def _request_halves(job: Job) -> list[tuple[bytes, bytes]]:
    """What stands before and after the number of a request's prompt, with one text after the other."""
    rng = random.Random(f"{job.seed} {job.prompt_bytes}")
    filler = " ".join(rng.choices(_WORDS, k=job.prompt_bytes // 2))
    halves = []
    for _ in range(_TEXTS):
        start = rng.randrange(max(1, len(filler) - job.prompt_bytes))
        prompt = f"{_NUMBER} {filler[start:]}"[: job.prompt_bytes]
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
        before, after = _request(job, json.dumps(document).encode()).split(_NUMBER.encode())
        halves.append((before, after))
    return halves


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
        self.right_bodies = {expected_body(job)}
        self.sending = True
        self.in_flight = 0
        self.errors: Counter[str] = Counter()
        self.first_byte_s: list[float] = []
        self.latency_s: list[float] = []
        self.reads = 0
        self.transports: set[asyncio.Transport] = set()
        self.finished = asyncio.get_running_loop().create_future()
        self._requests = build_requests(job)
        self._stop_at_s = time.perf_counter() + job.seconds if job.seconds else float("inf")

    def next_request(self) -> bytes | None:
        """Return the next request, which is in flight from now on; None once there is none."""
        if self.sending and time.perf_counter() < self._stop_at_s:
            request = next(self._requests, None)
            if request is not None:
                self.in_flight += 1
                return request
        self.stop_sending()
        return None

    def record_answer(self, fault: str | None, first_byte_s: float, latency_s: float) -> None:
        """Count the answer to a request in flight, or its `fault`."""
        if fault is None:
            self.first_byte_s.append(first_byte_s)
            self.latency_s.append(latency_s)
        else:
            self.errors[fault] += 1
        self.in_flight -= 1
        self._finish_if_done()

    def fault_in(self, body: bytes) -> str | None:
        """What is wrong with an answer's body, in words; one that was right once is not read again."""
        if body in self.right_bodies:
            return None
        fault = fault_in(body, self.job)
        if fault is None and len(self.right_bodies) < _MAX_RIGHT_BODIES:
            self.right_bodies.add(body)
        return fault

    def stop_sending(self) -> None:
        """Begin no more requests; the run ends with the last answer."""
        self.sending = False
        self._finish_if_done()

    def _finish_if_done(self) -> None:
        if not self.sending and not self.in_flight and not self.finished.done():
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
        request = self._run.next_request() if self._transport is not None else None
        if request is None or self._transport is None:
            return
        self._busy, self._first_byte, self._complete = True, 0.0, 0.0
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
        self._complete = time.perf_counter()
        body = b"".join(self._body)
        status = self._parser.get_status_code()
        if status != 200:
            self._done(f"status {status}: {body[:120]!r}")
        else:
            self._done(self._run.fault_in(body))
        if self._parser.should_keep_alive():
            self._next()
        elif self._transport is not None:
            self._transport.close()

    def _done(self, fault: str | None) -> None:
        if self._busy:
            self._busy = False
            self._run.record_answer(fault, self._first_byte - self._sent, self._complete - self._sent)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._run.transports.discard(self._transport)
            self._transport = None
        self._done("the connection was closed before the answer was complete")
        if self._run.sending:
            asyncio.ensure_future(_connect(self._run))  # noqa: RUF006 - the job's end awaits the answers


async def _connect(run: _Run) -> None:
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(lambda: _Connection(run), "127.0.0.1", run.job.port)
    except OSError as error:
        run.errors[f"cannot connect: {error}"] += 1
        if not run.transports:
            run.stop_sending()


async def carry_out(job: Job) -> Result:
    """Run one job to its end or its deadline."""
    run = _Run(job)
    begin = time.perf_counter()
    connections = min(job.connections, job.requests) if job.requests else job.connections
    await asyncio.gather(*(_connect(run) for _ in range(connections)))
    try:
        await asyncio.wait_for(run.finished, job.deadline_s)
    except TimeoutError:
        run.errors[f"unanswered after {job.deadline_s:g} s"] += run.in_flight
    wall_s = time.perf_counter() - begin
    for transport in list(run.transports):
        transport.abort()
    return Result(len(run.latency_s), dict(run.errors), wall_s, run.first_byte_s, run.latency_s, run.reads)


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
        gc.collect()
        gc.disable()
        Path(job.result_file).write_text(json.dumps(asdict(uvloop.run(carry_out(job)))))
        print("done", flush=True)


if __name__ == "__main__":
    main()
