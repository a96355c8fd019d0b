"""Workers are asked for their own metrics when somebody wants to know; who hangs keeps nobody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from radixway.core.config import WorkerLimitsConfig, WorkerSettings
from radixway.core.http import LoopGuard
from radixway.routing import EngineMetrics, Worker, WorkerRegistry, WorkerState
from radixway.routing.health_monitor import ProbeError
from radixway.routing.transports import EngineMetricsPoller, HttpProbe, HttpTransport
from radixway.routing.worker import ServerInfo
from support.scripted_worker import Exchange, scripted_worker


@asynccontextmanager
async def opened_transport() -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(LoopGuard(), WorkerLimitsConfig())
    transport.open()
    try:
        yield transport
    finally:
        await transport.close()


def ready(registry: WorkerRegistry, url: str) -> Worker:
    worker = registry.add_worker(WorkerSettings(url=url))
    registry.set_state(worker, WorkerState.READY)
    return worker


async def test_they_are_asked_at_most_every_two_seconds_and_only_while_they_can_answer() -> None:
    now = [100.0]
    async with scripted_worker(metrics=b"tgi_queue_size 4\n") as engine, opened_transport() as transport:
        registry = WorkerRegistry()
        worker = ready(registry, engine.url)
        reports = EngineMetricsPoller(registry, transport, lambda: now[0])
        await asyncio.gather(reports.poll_workers(), reports.poll_workers())
        assert worker.report == EngineMetrics(waiting=4)
        engine.metrics = b"tgi_queue_size 5\n"
        now[0] += 1.9
        await reports.poll_workers()
        assert worker.report == EngineMetrics(waiting=4)
        now[0] += 0.2
        await reports.poll_workers()
        assert worker.report == EngineMetrics(waiting=5)
        registry.set_state(worker, WorkerState.DOWN)
        now[0] += 2
        await reports.poll_workers()
        assert worker.report is None, "what it said before is not true for ever"


async def test_those_that_hang_fail_or_have_none_say_nothing_and_others_are_heard() -> None:
    class Hanging(asyncio.Protocol):
        """Takes connections, and says nothing."""

    loop = asyncio.get_running_loop()
    hanging = await loop.create_server(Hanging, "127.0.0.1", 0)
    host, port = hanging.sockets[0].getsockname()
    async with (
        scripted_worker(metrics=b"tgi_queue_size 4\n") as engine,
        scripted_worker() as without,
        opened_transport() as transport,
    ):
        registry = WorkerRegistry()
        heard = ready(registry, engine.url)
        others = [
            ready(registry, url) for url in (f"http://{host}:{port}", without.url, "http://127.0.0.1:1")
        ]
        await EngineMetricsPoller(registry, transport).poll_workers()
        assert heard.report == EngineMetrics(waiting=4)
        assert [worker.report for worker in others] == [None, None, None]
    hanging.close()


async def test_a_worker_that_wants_a_key_is_given_its_own() -> None:
    seen: list[str | None] = []

    async def behaviour(exchange: Exchange) -> None:
        seen.append(exchange.headers.get("authorization"))
        await exchange.reply(200, b"tgi_queue_size 1\n")

    async with scripted_worker(behaviour, own_metrics=True) as engine, opened_transport() as transport:
        registry = WorkerRegistry()
        worker = registry.add_worker(WorkerSettings(url=engine.url, api_key="secret"))
        registry.set_state(worker, WorkerState.READY)
        await EngineMetricsPoller(registry, transport).poll_workers()
    assert seen == ["Bearer secret"] and worker.report == EngineMetrics(waiting=1)


CACHE_CONFIG = b'vllm:cache_config_info{block_size="32",engine="0",num_gpu_blocks="400"} 1.0\n'


async def described(transport: HttpTransport, worker: Worker) -> ServerInfo:
    probe = HttpProbe(transport, timeout_s=0.2)
    await probe.check(worker)
    return await probe.describe(worker)


def facts(info: ServerInfo) -> tuple[object, ...]:
    return info.models, info.kv_tokens, info.block_tokens, info.max_batch_size, info.tokenizes


async def test_a_cache_of_which_no_page_of_its_own_tells_is_read_from_the_metrics() -> None:
    async with opened_transport() as transport:
        missing = frozenset({"/server_info"})
        async with scripted_worker(metrics=CACHE_CONFIG, missing_paths=missing) as engine:
            found = await described(transport, Worker(WorkerSettings(url=engine.url)))
            assert (found.kv_tokens, found.block_tokens) == (12_800, 32)
        async with scripted_worker(metrics=CACHE_CONFIG, info={"page_size": 64}) as engine:
            found = await described(transport, Worker(WorkerSettings(url=engine.url)))
            assert (found.kv_tokens, found.block_tokens) == (4096, 64), "what it says itself goes first"


async def test_a_slow_page_hides_nothing_that_is_known_and_nothing_that_others_tell() -> None:
    slow = frozenset({"/server_info", "/tokenize", "/model_info", "/get_weight_version", "/metrics"})
    async with (
        scripted_worker(tokenizes=True, info={"page_size": 64}) as engine,
        opened_transport() as transport,
    ):
        worker = Worker(WorkerSettings(url=engine.url))
        worker.info = await described(transport, worker)
        assert facts(worker.info) == (("m",), 4096, 64, 8, True)
        engine.silent_paths = slow
        engine.models.append("new")
        assert facts(await described(transport, worker)) == (("m", "new"), 4096, 64, 8, True)
        unknown = await described(transport, Worker(WorkerSettings(url=engine.url)))
        assert facts(unknown) == (("m", "new"), None, None, None, False)
        engine.silent_paths = slow - {"/metrics"}
        engine.metrics = CACHE_CONFIG
        unknown = await described(transport, Worker(WorkerSettings(url=engine.url)))
        assert (unknown.kv_tokens, unknown.block_tokens) == (12_800, 32)


async def test_a_server_without_health_or_tokenize_is_judged_by_its_models() -> None:
    """Such as llama.cpp's from Python."""
    missing = frozenset({"/health", "/server_info", "/tokenize", "/metrics", "/model_info"})
    async with (
        scripted_worker(models=["gguf"], missing_paths=missing) as engine,
        opened_transport() as transport,
    ):
        worker = Worker(WorkerSettings(url=engine.url))
        assert facts(await described(transport, worker)) == (("gguf",), None, None, None, False)
        engine.missing_paths |= {"/v1/models"}
        with pytest.raises(ProbeError, match="answered 404"):
            await described(transport, worker)
