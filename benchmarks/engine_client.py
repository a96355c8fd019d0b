"""Sends a workload to a server as `/v1/completions` in streams, and checks every answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from engine_model import text_of, tokens_of
from engine_servers import Server
from processes import cpu_seconds
from workloads import Ask

LONGEST_S = 900.0  # of one workload


class WrongAnswerError(Exception):
    """A server refused, lost or shortened an answer; the message says what came instead."""


@dataclass(slots=True)
class Answer:
    """What came back for an ask."""

    ask: Ask
    tokens: list[int]
    first_s: float
    """Seconds from sending the request to the first text."""


@dataclass(slots=True)
class Run:
    """One workload, once, through one server."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    """User and system time of the server's process tree."""
    answers: list[Answer] = field(default_factory=list)

    @property
    def prompt_tokens(self) -> int:
        return sum(len(answer.ask.prompt) for answer in self.answers)

    @property
    def answer_tokens(self) -> int:
        return sum(len(answer.tokens) for answer in self.answers)


def run(server: Server, asks: Sequence[Ask], at_once: int) -> Run:
    """Send `asks` and all that follows from their answers, at most `at_once` of them open at a time.

    Raises `WrongAnswerError`; then nothing of the workload counts.
    """
    try:
        return asyncio.run(asyncio.wait_for(_run(server, asks, at_once), LONGEST_S))
    except TimeoutError:
        raise WrongAnswerError(f"not all answers came within {LONGEST_S:g} s") from None
    except aiohttp.ClientError as error:
        raise WrongAnswerError(f"{type(error).__name__}: {error}") from error


async def _run(server: Server, asks: Sequence[Ask], at_once: int) -> Run:
    done, waiting = Run(), deque(asks)
    timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        unanswered: set[asyncio.Task[Answer]] = set()
        cpu, start = cpu_seconds(server.pid), time.perf_counter()
        while waiting or unanswered:
            while waiting and len(unanswered) < at_once:
                unanswered.add(asyncio.create_task(_answer(session, server, waiting.popleft())))
            ended, unanswered = await asyncio.wait(unanswered, return_when=asyncio.FIRST_COMPLETED)
            for answer in [task.result() for task in ended]:
                done.answers.append(answer)
                waiting.extend(answer.ask.then(answer.tokens))
        done.wall_s, done.cpu_s = time.perf_counter() - start, cpu_seconds(server.pid) - cpu
    return done


async def _answer(session: aiohttp.ClientSession, server: Server, ask: Ask) -> Answer:
    body = {
        "model": server.model,
        "prompt": text_of(ask.prompt),
        "max_tokens": ask.max_tokens,
        "temperature": 0,
        "stream": True,
        **server.engine.body,
    }
    text, first = "", None
    start = time.perf_counter()
    async with session.post(f"{server.url}/v1/completions", json=body) as response:
        if response.status != 200:
            raise WrongAnswerError(f"{response.status}: {(await response.text())[:200]}")
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line.removeprefix(b"data: "))
            if "error" in chunk:
                raise WrongAnswerError(f"an error in the stream: {chunk['error']}")
            if (usage := chunk.get("usage")) and usage["prompt_tokens"] != len(ask.prompt):
                raise WrongAnswerError(f"{usage['prompt_tokens']} prompt tokens instead of {len(ask.prompt)}")
            if came := "".join(choice["text"] for choice in chunk["choices"]):
                first = first or time.perf_counter() - start
                text += came
    try:
        tokens = tokens_of(text)
    except ValueError as error:
        raise WrongAnswerError(f"an answer that the model cannot give: {error}") from None
    if len(tokens) != ask.max_tokens or first is None:
        raise WrongAnswerError(f"{len(tokens)} tokens came instead of {ask.max_tokens}")
    return Answer(ask, tokens, first)
