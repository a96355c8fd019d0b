"""Gateways under test: started beside fake workers, sent requests to, and measured round by round."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from environments import PeerUnavailableError, clean_environment
from fake_worker import CHUNKS, MODEL
from load import Job, Load, Result
from peers import Ports, Target, environment_of
from processes import cpu_seconds, free_ports, last_words, stop

HERE = Path(__file__).resolve().parent


class BenchmarkError(Exception):
    """The run cannot give figures; the message says why."""


class WrongAnswerError(Exception):
    """A gateway lost, changed or refused an answer; the message says what came instead."""


@dataclass(slots=True)
class Work:
    """One kind of request, over how many connections, and how many of them a round sends or for how long."""

    name: str
    requests: int
    connections: int
    prompt_bytes: int
    stream: bool = False
    chunks: int = CHUNKS
    seconds: float = 0.0
    """A round's length where `requests` is 0."""


@dataclass(slots=True)
class Gateway:
    """A gateway under test while it runs, and its figures. `pid` is None for the bare worker."""

    name: str
    port: int
    pid: int | None
    share: float = 1.0
    fault: str | None = None
    resident_bytes: int = 0
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    rate: dict[str, list[float]] = field(default_factory=dict)
    reads: dict[str, list[float]] = field(default_factory=dict)
    first_byte_s: dict[str, list[float]] = field(default_factory=dict)
    latency_s: dict[str, list[list[float]]] = field(default_factory=dict)
    """Of each round's answers, to their ends."""
    load_cpu_s: dict[str, list[float]] = field(default_factory=dict)
    """What the load generator itself took."""
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every request."""


# ---------------------------------------------------------------- processes


def wait_until_it_answers(
    process: subprocess.Popen[Any],
    port: int,
    within_s: float,
    log: Path,
    name: str,
    headers: dict[str, str] | None = None,
) -> None:
    """Return once a chat completion comes back through `port`; `PeerUnavailableError` if none does."""
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}).encode()
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    why, end = "no answer", time.monotonic() + within_s
    while time.monotonic() < end:
        if process.poll() is not None:
            raise PeerUnavailableError(f"{name} ended with {process.returncode} at start: {last_words(log)}")
        request = urllib.request.Request(url, body, {"content-type": "application/json"} | (headers or {}))
        try:
            with opener.open(request, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (OSError, ValueError) as error:  # HTTP errors, refused connections, timeouts
            why = str(error)
        time.sleep(0.1)
    raise PeerUnavailableError(f"{name} did not answer within {within_s:g} s ({why}): {last_words(log)}")


@contextlib.contextmanager
def fake_workers(count: int, step_ms: float, *more: str) -> Iterator[list[int]]:
    """Run the fake workers and give their ports; `more` are options of theirs."""
    ports = free_ports(count)
    command = [
        sys.executable,
        str(HERE / "fake_worker.py"),
        "--step-ms",
        str(step_ms),
        "--ports",
        *map(str, ports),
        *more,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise BenchmarkError("the fake worker did not start")
        yield ports
    finally:
        stop(process)


@contextlib.contextmanager
def running(target: Target, workers: list[int], peers_dir: Path) -> Iterator[Gateway]:
    """Install (if need be), start and finally stop a gateway. Raises `PeerUnavailableError`."""
    environment = environment_of(target, peers_dir)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        gateway_port, spare = free_ports(2)
        command = target.command(Ports(gateway_port, spare, workers), environment, scratch)
        log = scratch / "log"
        home = {"RADIXWAY_HOME": str(scratch / "home"), **target.env}
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(log.open("wb")),
                stderr=subprocess.STDOUT,
                cwd=scratch,
                env=clean_environment(home),
                start_new_session=True,
            )
        except OSError as error:
            raise PeerUnavailableError(f"{target.name} cannot be started: {error}") from error
        stack.callback(stop, process)
        wait_until_it_answers(process, gateway_port, target.start_s, log, target.name, target.headers)
        yield Gateway(target.name, gateway_port, process.pid, target.share, headers=target.headers)


# ---------------------------------------------------------------- measuring


def send(gateway: Gateway, work: Work, load: Load, seed: int) -> tuple[Result, float]:
    """Send one round of work through a gateway; its answers, and the CPU seconds the gateway spent.

    Raises `WrongAnswerError` if a single answer was missing or wrong.
    """
    requests = max(work.connections, round(work.requests * gateway.share)) if work.requests else 0
    job = Job(
        gateway.port,
        requests,
        work.connections,
        work.prompt_bytes,
        work.stream,
        work.chunks,
        seconds=work.seconds,
        seed=seed,
        headers=gateway.headers,
    )
    before = cpu_seconds(gateway.pid) if gateway.pid else 0.0
    result = load.run(job)
    spent = cpu_seconds(gateway.pid) - before if gateway.pid else 0.0
    if result.errors:
        wrong = "; ".join(f"{count} × {fault}" for fault, count in list(result.errors.items())[:3])
        raise WrongAnswerError(f"answered wrongly ({work.name}): {wrong}")
    if not result.ok:
        raise WrongAnswerError(f"answered nothing in {work.seconds:g} s ({work.name})")
    return result, spent


def measure(gateway: Gateway, works: list[Work], load: Load, seed: int) -> None:
    """One round of every work through one gateway, added to its figures."""
    for work in works:
        before = cpu_seconds(load.process.pid)
        result, spent = send(gateway, work, load, seed)
        load_cpu_s = cpu_seconds(load.process.pid) - before
        gateway.cpu_s.setdefault(work.name, []).append(spent / result.ok * 1000)
        gateway.rate.setdefault(work.name, []).append(result.ok / result.wall_s)
        gateway.reads.setdefault(work.name, []).append(result.reads / result.ok)
        gateway.first_byte_s.setdefault(work.name, []).extend(result.first_byte_s)
        gateway.latency_s.setdefault(work.name, []).append(result.latency_s)
        gateway.load_cpu_s.setdefault(work.name, []).append(load_cpu_s / result.ok * 1000)


def warm_up(gateway: Gateway, works: list[Work], load: Load) -> None:
    """A fifth of a round, so that pools are full and caches warm when the counting starts."""
    for work in works:
        requests = max(work.requests // 5, 20) if work.requests else 0
        send(gateway, replace(work, requests=requests, seconds=work.seconds / 5), load, seed=-1)


def measure_rounds(
    gateways: list[Gateway], works: list[Work], load: Load, rounds: int, budget_s: float
) -> int:
    """Warm every gateway up, then measure them round by round in changing order.

    Returns how many rounds fitted into `budget_s`; at least one is run. A gateway that gives a wrong answer
    gets its `fault` and is left out from there on.
    """
    begin, slowest = time.monotonic(), 0.0
    order = list(gateways)
    for done in range(-1, rounds):
        started = time.monotonic()
        if done > 0 and started - begin + slowest > budget_s:
            print(f"the machine is busy: only {done} of {rounds} rounds fitted into {budget_s:g} s")
            return done
        random.Random(done).shuffle(order)
        for gateway in [gateway for gateway in order if gateway.fault is None]:
            try:
                if done < 0:
                    warm_up(gateway, works, load)
                else:
                    measure(gateway, works, load, seed=done)
            except WrongAnswerError as fault:
                gateway.fault = str(fault)
        slowest = max(slowest, time.monotonic() - started)
    return rounds
