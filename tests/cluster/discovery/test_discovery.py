"""Sources are followed, come back after failures, and never take workers away by failing."""

import asyncio

import pytest

from radixway.cluster.discovery import DiscoverySourceError, WorkerDiscovery
from radixway.core.component import running
from radixway.core.config import WorkerSettings
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import DiscoveredWorker, FleetMembership, WorkerRegistry

A, B = "http://10.0.0.1:8000", "http://10.0.0.2:8000"


class Scripted:
    """Tells what the test puts into it, and fails where that is an exception."""

    def __init__(self, name="scripted"):
        self.name = name
        self.words = asyncio.Queue()
        self.followed = asyncio.Semaphore(0)

    async def follow_workers(self, tell):
        self.followed.release()
        while True:
            word = await self.words.get()
            if isinstance(word, Exception):
                raise word
            tell([DiscoveredWorker(WorkerSettings(url=url)) for url in word])
            self.words.task_done()

    async def says(self, *urls):
        self.words.put_nowait(urls)
        await self.words.join()


@pytest.fixture
def registry():
    return WorkerRegistry()


def urls(registry):
    return [worker.url for worker in registry]


async def test_what_a_source_said_last_holds_while_it_fails_and_it_is_followed_again(registry):
    source, metrics = Scripted(), MetricsRegistry()
    discovery = WorkerDiscovery(FleetMembership(registry), [source], metrics)
    assert discovery.describe()["scripted"] == {"state": "starting", "problem": None, "workers": 0}
    async with running([discovery]):
        await source.followed.acquire()
        await source.says(A, B)
        for failure in (DiscoverySourceError("no answer"), ZeroDivisionError("ours")):
            source.words.put_nowait(failure)
            source.words.task_done()
            await source.followed.acquire()
            assert discovery.describe()["scripted"]["state"] == "down"
            assert str(failure) in discovery.describe()["scripted"]["problem"]
            assert b'radixway_discovery_up{source="scripted"} 0.0' in metrics.render_text()
            assert urls(registry) == [A, B]
            await source.says(A, B)
            assert discovery.describe()["scripted"] == {"state": "ok", "problem": None, "workers": 2}
        await source.says(B)
    assert urls(registry) == [B]
    assert b'radixway_discovery_changes_total{change="vanished"} 1.0' in metrics.render_text()
    assert b'radixway_discovery_workers{source="scripted"} 1.0' in metrics.render_text()


async def test_sources_that_fail_do_not_hold_up_the_others(registry):
    bad, good = Scripted("bad"), Scripted("good")
    async with running([WorkerDiscovery(FleetMembership(registry), [bad, good], MetricsRegistry())]):
        bad.words.put_nowait(DiscoverySourceError("no answer"))
        await good.says(A)
        assert urls(registry) == [A]
