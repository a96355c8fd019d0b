"""A gateway that has been busy for long: its journals are full, and its index knows a million blocks.

The blocks come over ZeroMQ as the KV events of two engines (`kv_publisher.py`), the journals are those of
requests that were answered. Nothing is measured before the gateway itself counts as many of both.
"""

from __future__ import annotations

import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_worker import MODEL, completion_body
from gateway_figures import latency_figures
from kv_publisher import BLOCK_SIZE, BLOCKS, sequence_tokens, sequences_for
from load import Job, Load
from measured_gateways import HERE, BenchmarkError, Gateway, WrongAnswerError, running
from peers import RADIXWAY, Ports
from processes import cpu_seconds, resident_bytes, stop

JOURNALS = 10_000
CONNECTIONS = 32
_PROMPT_TOKENS = 256
_FILL_S = 180.0
_IDS_PER_ROUND = 8_000


def measure_full_gateway(
    workers: list[int], load: Load, peers_dir: Path, *, blocks: int, seconds: float, rounds: int
) -> dict[str, Any]:
    """Fill a gateway with `blocks` and `JOURNALS`, then measure it; the figures of each kind of request."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        endpoints = stack.enter_context(kv_publishers(blocks, len(workers)))
        target = replace(
            RADIXWAY,
            name="full",
            command=lambda ports, *_: _serve(ports),
            env=_environment(workers, endpoints),
        )
        gateway = stack.enter_context(running(target, workers, peers_dir))
        fill_journals(gateway, load)
        wait_until_indexed(gateway, blocks)
        jobs = {
            "chats of 1 KB": lambda seed: Job(gateway.port, 0, CONNECTIONS, 1024, seconds=seconds, seed=seed),
            "256 token ids, half of them indexed": lambda seed: _token_job(gateway, blocks, seed, scratch),
        }
        figures: dict[str, Any] = {}
        for name, job in jobs.items():
            latencies, cpu = [], []
            for seed in range(rounds):
                before = cpu_seconds(gateway.pid or 0)
                result = load.run(job(seed))
                if result.errors:
                    raise WrongAnswerError(f"the full gateway answered wrongly: {next(iter(result.errors))}")
                cpu.append((cpu_seconds(gateway.pid or 0) - before) / result.ok * 1e3)
                latencies.append(result.latency_s)
            figures[name] = {
                "latency_ms": latency_figures(latencies),
                "cpu_s_per_1000": statistics.median(cpu),
            }
        held = {"blocks": indexed_blocks(gateway), "journals": kept_journals(gateway)}
        return {"held": held | {"resident_mib": resident_bytes(gateway.pid or 0) / 2**20}, "works": figures}


@contextlib.contextmanager
def kv_publishers(blocks: int, count: int) -> Iterator[list[dict[str, str]]]:
    """Run publishers that have published `blocks` and give their endpoints."""
    command = [
        sys.executable,
        str(HERE / "kv_publisher.py"),
        "--blocks",
        str(blocks),
        "--publishers",
        str(count),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        if not (line := process.stdout.readline()):
            raise BenchmarkError("the KV publishers did not start")
        yield json.loads(line)
    finally:
        stop(process)


def _serve(ports: Ports) -> list[str]:
    return [sys.executable, "-m", "radixway", "serve", "--port", str(ports.gateway)]


def _environment(workers: list[int], endpoints: list[dict[str, str]]) -> dict[str, str]:
    """The defaults, but for where the workers publish."""
    section = [
        {"url": f"http://127.0.0.1:{port}", "kv_events": where}
        for port, where in zip(workers, endpoints, strict=True)
    ]
    return {"RADIXWAY__WORKERS": json.dumps(section)}


def fill_journals(gateway: Gateway, load: Load) -> None:
    """Send requests until the gateway keeps `JOURNALS` of them."""
    while (missing := JOURNALS - kept_journals(gateway)) > 0:
        result = load.run(Job(gateway.port, max(missing, CONNECTIONS), CONNECTIONS, 1024, seed=-missing))
        if result.errors:
            raise WrongAnswerError(f"the full gateway answered wrongly: {next(iter(result.errors))}")


def wait_until_indexed(gateway: Gateway, blocks: int) -> None:
    """Return once the gateway follows its workers' events and knows that many blocks."""
    end = time.monotonic() + _FILL_S
    while (known := indexed_blocks(gateway)) < blocks:
        if time.monotonic() > end:
            raise BenchmarkError(f"only {known:,} of {blocks:,} blocks were indexed within {_FILL_S:g} s")
        time.sleep(0.5)


def indexed_blocks(gateway: Gateway) -> int:
    """Blocks that the gateway knows by its workers' events, as long as it follows all of them."""
    told = [worker["kv_events"] for worker in _get(gateway, "/list_workers")["workers"]]
    return sum(each["blocks"] for each in told) if all(each["state"] == "following" for each in told) else 0


def kept_journals(gateway: Gateway) -> int:
    """Journals that `/explain` can be asked about."""
    return int(_get(gateway, "/requests?limit=1")["kept"])


def _get(gateway: Gateway, path: str) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{gateway.port}{path}", timeout=30) as reply:
        told: dict[str, Any] = json.load(reply)
        return told


def _token_job(gateway: Gateway, blocks: int, seed: int, scratch: Path) -> Job:
    """Prompts by their token ids: the first half of each begins a published sequence, the rest is its own."""
    rng = random.Random(seed)
    known = [sequence_tokens(rng.randrange(sequences_for(blocks))) for _ in range(512)]
    half = _PROMPT_TOKENS // 2
    assert half % BLOCK_SIZE == 0 and half <= BLOCKS * BLOCK_SIZE
    bodies, answer = scratch / "bodies", scratch / "answer"
    with bodies.open("w") as file:
        for _ in range(_IDS_PER_ROUND):
            prompt = rng.choice(known)[:half] + rng.choices(range(2**16), k=half)
            file.write(json.dumps({"model": MODEL, "prompt": prompt, "max_tokens": 50}) + "\n")
    answer.write_bytes(completion_body())
    return Job(
        gateway.port,
        _IDS_PER_ROUND,
        CONNECTIONS,
        0,
        path="/v1/completions",
        bodies_file=str(bodies),
        answer_file=str(answer),
    )
