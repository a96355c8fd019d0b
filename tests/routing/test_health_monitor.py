"""The watch over workers, with a scripted probe instead of sockets."""

import asyncio

import pytest

from radixway.core.config import HealthConfig, WeightsConfig, WorkerSettings
from radixway.routing import HealthMonitor, WeightVersionTracker, WorkerRegistry, WorkerState
from radixway.routing.health_monitor import ProbeError
from radixway.routing.worker import ServerInfo


class ScriptedProbe:
    def __init__(self):
        self.well = True
        self.findings = ServerInfo(models=("m",), kv_tokens=100, max_batch_size=8)

    async def check(self, worker):
        if not self.well:
            raise ProbeError("scripted")

    async def describe(self, worker):
        return self.findings


class Ward:
    def __init__(self, **config):
        self.registry = WorkerRegistry()
        self.probe = ScriptedProbe()
        self.weights = WeightVersionTracker(self.registry, WeightsConfig())
        health = HealthConfig(interval_s=60, **config)
        self.monitor = HealthMonitor(self.registry, self.probe, health, self.weights)
        self.monitor.open()


@pytest.fixture
async def ward():
    ward = Ward()
    yield ward
    await ward.monitor.stop_probing()


async def examine(ward, worker):
    try:
        await ward.monitor.probe_worker(worker)
    except ProbeError:
        return False
    return True


async def test_a_worker_that_answers_becomes_ready_with_what_it_says_of_itself(ward):
    worker = ward.registry.add_worker(WorkerSettings(url="http://a"))
    assert worker.state is WorkerState.JOINING
    await examine(ward, worker)
    assert worker.state is WorkerState.READY
    assert (worker.models, worker.kv_tokens, worker.max_batch_size) == (("m",), 100, 8)


async def test_what_the_operator_gave_is_not_overwritten(ward):
    worker = ward.registry.add_worker(WorkerSettings(url="http://a", models=("mine",), kv_tokens=7))
    await examine(ward, worker)
    assert (worker.models, worker.kv_tokens, worker.max_batch_size) == (("mine",), 7, 8)


async def test_one_failed_probe_is_forgiven_two_are_not_and_recovery_is_noticed(ward):
    worker = ward.registry.add_worker(WorkerSettings(url="http://a"))
    await examine(ward, worker)
    ward.probe.well = False
    assert not await examine(ward, worker)
    assert worker.state is WorkerState.READY
    assert not await examine(ward, worker)
    assert worker.state is WorkerState.DOWN
    assert worker.last_error == "scripted"
    ward.probe.well = True
    ward.probe.findings = ServerInfo(models=("new",))
    await examine(ward, worker)
    assert worker.state is WorkerState.READY
    assert worker.models == ("new",)


async def test_health_checks_leave_the_load_alone_and_draining_stays_draining(ward):
    worker = ward.registry.add_worker(WorkerSettings(url="http://a"))
    await examine(ward, worker)
    worker.load.requests = 3
    ward.registry.set_state(worker, WorkerState.DRAINING)
    await examine(ward, worker)
    assert worker.state is WorkerState.DRAINING
    assert worker.load.requests == 3


async def test_a_worker_that_takes_no_connection_is_out_at_once_and_back_after_one_probe(ward):
    worker = ward.registry.add_worker(WorkerSettings(url="http://a"))
    back = asyncio.Event()
    ward.registry.on_state.append(lambda w: back.set() if w.state is WorkerState.READY else None)
    async with asyncio.timeout(5):
        await back.wait()
    back.clear()
    ward.monitor.report_failure(worker, gone=True)
    assert worker.state is WorkerState.DOWN
    async with asyncio.timeout(5):  # the interval is a minute: only the nudge can bring it back in time
        await back.wait()


async def test_a_removed_worker_is_watched_no_longer(ward):
    worker = ward.registry.add_worker(WorkerSettings(url="http://a"))
    ward.registry.remove_worker("http://a")
    ward.monitor.report_failure(worker, gone=True)
    assert not ward.monitor._tasks


async def test_a_worker_added_again_is_asked_for_its_version_however_the_probes_fall(ward):
    ward.probe.findings = ServerInfo(models=("m",), weight_version="2")
    worker = ward.registry.add_worker(WorkerSettings(url="http://a"))
    await examine(ward, worker)
    ward.weights.set_expected("2")
    old, new = ward.probe.describe, ServerInfo(models=("m",), weight_version="1")

    async def restarted_meanwhile(asked):
        found = await old(asked)
        ward.registry.add_worker(WorkerSettings(url="http://a"))
        ward.probe.describe, ward.probe.findings = old, new
        return found

    ward.probe.describe = restarted_meanwhile
    await ward.monitor.probe_worker(worker, describe=True)
    await examine(ward, worker)
    assert (worker.state, worker.weight_version) == (WorkerState.STALE, "1")
