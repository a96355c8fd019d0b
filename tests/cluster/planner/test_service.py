"""The planner of a running gateway, over HTTP."""

import asyncio
import json
import logging
import time

from radixway.cluster.planner.service import PlannerService, count_replicas
from radixway.cluster.planner.traffic_window import TrafficWindow
from radixway.core.component import running
from radixway.core.config import PlannerConfig, RoutingConfig, WorkerSettings
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import LoadShare, RoutingRequest, Selector, Worker, WorkerRegistry, WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

PLANNER = {"forecast": "constant", "load_interval_s": 600, "interval_s": 600, "profile": {"startup_s": 1}}
"""It looks when the test says so."""
USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 3,
    "prompt_tokens_details": {"cached_tokens": 200},
}


async def answer(exchange):
    """Whole replies and streams, each with its usage."""
    if exchange.path == "/v1/models":
        await exchange.reply(200, b'{"data": [{"id": "m"}]}')
    elif exchange.method == "GET":
        await exchange.reply(404, b"{}")
    elif exchange.json().get("stream"):
        await exchange.begin_stream()
        for text in ("a", "b", "c"):
            await exchange.chunk(b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % text.encode())
        await exchange.chunk(b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\n")
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()
    else:
        message = {"choices": [{"message": {"content": "abc"}}], "usage": USAGE}
        await exchange.reply(200, json.dumps(message).encode())


async def ask(gateway, **fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], **fields}
    async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
        await response.read()
        return response.status


async def test_the_plan_of_a_running_gateway_counts_its_requests():
    async with (
        scripted_worker(answer) as worker,
        running_gateway(worker.url, scale={"planner": PLANNER}) as gateway,
    ):
        room = gateway.gateway.planner
        for stream in (False, True, True):
            assert await ask(gateway, stream=stream) == 200
        await room.update_plans(600, 600)
        status, told = await gateway.get("/plan")
        assert status == 200
        [model] = told["models"]
        assert model["model"] == "m"
        assert model["roles"]["any"]["ready"] == 1
        assert model["roles"]["any"]["replicas"] >= 1
        assert model["demand"]["requests_per_s"] == 3 / 600
        assert model["demand"]["uncached_tokens"] == 1000
        assert model["demand"]["output_tokens"] == 3
        async with gateway.client.get(gateway.url + "/metrics/prometheus") as response:
            metrics = await response.text()
        assert 'radixway_planner_replicas{model="m",role="any"} 1.0' in metrics
        assert 'radixway_planner_ready_replicas{model="m",role="any"} 1.0' in metrics


async def test_models_that_clients_make_up_are_not_planned_for():
    async with (
        scripted_worker(answer) as worker,
        running_gateway(worker.url, scale={"planner": PLANNER}) as gateway,
    ):
        for number in range(3):
            assert await ask(gateway, model=f"made-up-{number}") == 404
        await gateway.gateway.planner.update_plans(600, 600)
        _, told = await gateway.get("/plan")
        assert [each["model"] for each in told["models"]] == ["m"]


async def test_a_model_whose_last_worker_left_is_forgotten():
    async with (
        scripted_worker(answer) as worker,
        running_gateway(worker.url, scale={"planner": PLANNER}) as gateway,
    ):
        room = gateway.gateway.planner
        await room.update_plans(600, 600)
        gateway.gateway.registry.remove_worker(worker.url)
        await room.update_plans(1200, 600)
        assert (await gateway.get("/plan"))[1]["models"] == []


async def test_prefill_and_decode_workers_are_planned_apart():
    roles = [
        {"role": "prefill", "disaggregation": "vllm"},
        {"role": "decode", "disaggregation": "vllm"},
    ]
    async with scripted_worker(answer) as a, scripted_worker(answer) as b:
        workers = [{"url": each.url} | role for each, role in zip((a, b), roles, strict=True)]
        async with running_gateway(workers=workers, scale={"planner": PLANNER}, wait=False) as gateway:
            for each in (a, b):
                await gateway.until(each.url, WorkerState.READY)
            await gateway.gateway.planner.update_plans(600, 600)
            [model] = (await gateway.get("/plan"))[1]["models"]
            assert model["roles"].keys() == {"prefill", "decode"}
            assert [role["ready"] for role in model["roles"].values()] == [1, 1]


async def test_without_a_planner_the_answer_says_what_to_configure():
    async with running_gateway(wait=False) as gateway:
        status, told = await gateway.get("/plan")
        assert status == 404
        assert told["error"]["code"] == "planner_off"
        assert "scale.planner" in told["error"]["message"]


def loaded(stream):
    """A worker with twenty requests in hand, at 0."""
    selector = Selector(RoutingConfig(), clock=lambda: 0.0)
    worker = Worker(WorkerSettings(url="http://worker"), state=WorkerState.READY)
    selector.add_worker(worker)
    for _ in range(20):
        selector.reserve(selector.select_worker(RoutingRequest(tokens=2000, stream=stream), [worker]))
    return worker


def test_replies_that_come_whole_are_no_prefills_that_wait_once_the_time_of_those_is_over():
    """They tell of no first token, and may decode for a minute."""
    worker = loaded(stream=False)
    at_once, later = count_replicas([worker], 0.0), count_replicas([worker], 60.0)
    assert (at_once.prefill_tokens, at_once.decoding) == (40_000, 0)
    assert (later.prefill_tokens, later.decoding) == (0, 20)


def test_streams_are_prefills_until_their_first_token_has_come():
    late = count_replicas([loaded(stream=True)], 60.0)
    assert (late.prefill_tokens, late.decoding) == (40_000, 0)


async def test_a_look_that_meets_a_defect_is_not_the_last(caplog):
    quick = PLANNER | {"load_interval_s": 0.1}
    async with scripted_worker(answer) as worker, running_gateway(worker.url) as gateway:
        room = PlannerService(
            PlannerConfig(**quick), gateway.gateway.registry, gateway.gateway.metrics, time.monotonic
        )
        again, looks = asyncio.Event(), iter([RuntimeError("a defect")])

        async def look(now, span_s):
            for failure in looks:
                raise failure
            again.set()

        room.update_plans = look
        with caplog.at_level(logging.CRITICAL):
            async with running([room]):
                await again.wait()


async def test_workers_are_gone_through_once_however_many_models_they_have():
    class Counted(WorkerRegistry):
        times = 0

        def __iter__(self):
            self.times += 1
            return super().__iter__()

    registry = Counted()
    room = PlannerService(PlannerConfig.model_validate(PLANNER), registry, MetricsRegistry(), lambda: 0.0)
    for number in range(5):
        registry.add_worker(
            WorkerSettings(url=f"http://10.0.0.{number}:8000", models=(f"m{number}", "shared"))
        )
    await room.update_plans(600, 600)
    assert registry.times == 1
    assert room.plans.keys() == {"shared", *(f"m{number}" for number in range(5))}


async def test_what_a_gateway_sent_before_it_was_heard_is_no_traffic_of_now():
    class Watched:
        def take_window(self, model, span_s):
            return TrafficWindow(span_s, requests=10)

        def count_inflight(self, model):
            return 0

    registry, heard, taken = WorkerRegistry(), [frozenset()], []
    room = PlannerService(PlannerConfig.model_validate(PLANNER), registry, MetricsRegistry(), lambda: 0.0)
    room.gateways, room._watch = lambda: heard[0], Watched()
    one = registry.add_worker(WorkerSettings(url="http://10.0.0.1:8000", models=("m",)))

    async def arrivals(theirs):
        one.load.total += 10
        one.load.elsewhere = LoadShare(total=theirs)
        await room.update_plans(len(taken) + 1.0, 1.0)
        taken.append(room._planner("m", split=False)._parts[-1].requests)
        return taken[-1]

    assert await arrivals(0) == 10
    heard[0] = frozenset({("b", False)})
    assert await arrivals(5_000_000) == 10  # it was not heard for a while, and tells of all days before
    heard[0] = frozenset({("b", True)})
    assert await arrivals(9_000_000) == 10  # and of all other workers now
    assert await arrivals(9_000_030) == 40
    heard[0] = frozenset()
    assert await arrivals(0) == 40  # it is cut off for a moment
    assert await arrivals(0) == 10
    old = registry.add_worker(WorkerSettings(url="http://10.0.0.2:8000", models=("m",)))
    old.load.elsewhere = LoadShare(total=7_000_000)
    assert await arrivals(0) == 10  # new here, and long at work elsewhere
