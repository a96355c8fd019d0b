"""Several processes, one scrape: real gateways that share a directory, as `PROMETHEUS_MULTIPROC_DIR` says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import aiohttp
import pytest

from radixway.core.config import ConfigError
from radixway.core.telemetry import MetricsRegistry, MetricsScrape
from radixway.core.telemetry.metrics import multiprocess
from support.gateway_process import gateway_process
from support.scripted_worker import Exchange, scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


async def ask(client: aiohttp.ClientSession, url: str, **more: object) -> int:
    async with client.post(url + "/v1/chat/completions", json=CHAT | more) as response:
        await response.read()
        return response.status


async def scrape(client: aiohttp.ClientSession, url: str) -> MetricsScrape:
    async with client.get(url + "/metrics/prometheus") as response:
        assert response.status == 200
        return MetricsScrape.parse_text(await response.text(), 0.0)


async def give(client: aiohttp.ClientSession, url: str, worker: str) -> None:
    """A worker, which serves when this returns."""
    async with client.post(url + "/add_worker", json={"url": worker}) as response:
        assert response.status == 200


async def test_a_scrape_of_one_process_tells_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, answered = asyncio.Event(), asyncio.Event()
    died: set[str] = set()

    async def behaviour(exchange: Exchange) -> None:
        user = exchange.json().get("user", "")
        if user == "held":
            held.set()
            await answered.wait()
        elif user.startswith("dies") and user not in died:
            died.add(user)
            exchange.die()
            return
        await exchange.reply(200, b'{"usage": {"prompt_tokens": 5, "completion_tokens": 2}}')

    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(shared))
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path / "home"))
    async with scripted_worker(behaviour) as worker, aiohttp.ClientSession() as client:
        tree = {"gateway": {"port": 0}, "chat": {"enabled": False}}
        with gateway_process(tmp_path / "one", tree) as (one, killed):
            with gateway_process(tmp_path / "two", tree) as (two, _):
                await give(client, one, worker.url)
                await give(client, two, worker.url)
                for url, times in ((one, 3), (two, 2)):
                    for _ in range(times - 1):
                        assert await ask(client, url) == 200
                    assert await ask(client, url, user=f"dies first, at {url}") == 200
                assert await ask(client, one, model="nobody's") == 404
                waiting = asyncio.create_task(ask(client, one, user="held"))
                await held.wait()
                await scrape(client, one)  # what it reads for itself the other knows from then on
                both = await scrape(client, two)
                assert both.total("radixway_requests_total", status="200") == 5
                assert both.total("radixway_requests_total", status="404", model="unknown") == 1
                assert both.total("radixway_tokens_total", kind="prompt") == 25
                assert both.total("radixway_request_seconds_count") == 6
                assert both.total("radixway_request_seconds_bucket", le="+Inf") == 6
                assert both.total("radixway_in_flight") == 1, "one's, told by two"
                assert both.total("radixway_workers") == 1, "both know the same worker"
                assert both.total("radixway_retries_total") == 2, "prometheus_client's own counters, too"
                killed.kill()
                killed.wait()
                with pytest.raises(aiohttp.ClientError):
                    await waiting
                answered.set()
                left = await scrape(client, two)
                assert left.total("radixway_requests_total", status="200") == 5, "what it counted is counted"
                assert left.total("radixway_in_flight") == 0, "what it had in hand is gone"
                assert left.total("radixway_workers") == 1


def test_a_directory_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="PROMETHEUS_MULTIPROC_DIR"):
        MetricsRegistry()


def test_what_another_process_has_spoilt_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    (tmp_path / "radixway-1-00.json").write_bytes(b'[["radixway_requests", "counter", "')
    (tmp_path / "radixway-2-00.json").write_bytes(b"[[1]]")
    metrics = MetricsRegistry()
    metrics.exchanges.record_completed("s", "m", 200, 0.1, 0.2)
    assert b'radixway_requests_total{model="m",status="200",surface="s"} 1.0' in metrics.render_text()


SPOILT = """
import shutil, sys
from pathlib import Path
from radixway.core.telemetry import MetricsRegistry

directory = Path(sys.argv[1])
metrics = MetricsRegistry()
metrics.retries("busy").inc()
for name, left in (("counter_1.db", b""), ("counter_2.db", b"xxxx"), ("histogram_3.db", b"\\xff" * 64)):
    (directory / name).write_bytes(left)
assert b'radixway_retries_total{reason="busy"} 1.0' in metrics.render_text()
shutil.rmtree(directory)
metrics.hedges("won").inc()
metrics.exchanges.record_completed("s", "m", 200, 0.1, 0.2)
assert b'radixway_requests_total{model="m",status="200",surface="s"} 1.0' in metrics.render_text()
"""


def test_files_that_died_half_made_and_a_directory_that_goes_away_cost_no_scrape_and_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(shared))
    subprocess.run([sys.executable, "-c", SPOILT, str(shared)], check=True, timeout=60)


async def test_what_others_have_written_is_put_together_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    merge = multiprocess._merge_family

    def watched(*given) -> None:
        threads.append(threading.get_ident())
        merge(*given)

    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(multiprocess, "_merge_family", watched)
    metrics = MetricsRegistry()
    metrics.exchanges.record_completed("s", "m", 200, 0.1, 0.2)
    told = await metrics.scrape()
    assert b'radixway_requests_total{model="m",status="200",surface="s"} 1.0' in told.body
    assert threads and threading.get_ident() not in threads
