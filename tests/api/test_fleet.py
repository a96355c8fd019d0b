"""Calls that reach every worker, and who may answer after new weights."""

import asyncio
import json

import pytest

from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

ASK = {"text": "hello", "sampling_params": {}}


class Engine:
    """A worker's behaviour: takes updates as SGLang does, and answers with the version it has."""

    def __init__(self, version="1"):
        self.version = version
        self.refuses = None
        """Status with which it refuses what goes to the whole fleet."""
        self.worker = None

    def at(self, worker):
        self.worker, worker.weight_version = worker, self.version
        return self

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path == "/generate":
            meta = {"weight_version": self.version}
            await exchange.reply(200, json.dumps({"text": "ok", "meta_info": meta}).encode())
        elif self.refuses is not None:
            await exchange.reply(self.refuses, b'{"success": false, "message": "no"}')
        elif exchange.path.startswith("/update_weight"):
            said = exchange.json()
            self.version = said.get("weight_version") or said.get("new_version") or self.version
            self.worker.weight_version = self.version
            await exchange.reply(200, b'{"success": true, "message": "done", "num_paused_requests": 0}')
        else:
            await exchange.reply(200, b'{"status": "ok"}')


def paths(worker):
    return [exchange.path for exchange in worker.requests]


@pytest.mark.parametrize(
    "path",
    [
        "/pause_generation",
        "/continue_generation",
        "/flush_cache",
        "/release_memory_occupation",
        "/resume_memory_occupation",
        "/init_weights_update_group",
        "/destroy_weights_update_group",
        "/update_weights_from_disk",
        "/update_weights_from_tensor",
        "/update_weights_from_distributed",
        "/update_weights_from_ipc",
        "/update_weight_version",
        "/abort_request",
    ],
)
async def test_the_call_reaches_every_worker_as_it_came_and_says_what_each_answered(path):
    body = b'{"odd":  1e-5, "unknown": [1], "abort_all":true}'
    async with scripted_worker(Engine()) as a, scripted_worker(Engine()) as b:
        a.behaviour.at(a), b.behaviour.at(b)
        async with running_gateway(a.url, b.url) as gateway:
            status, told, _ = await gateway.post(path + "?a=%20b&a=c", body)
            assert (status, told["success"], told["message"]) == (200, True, "2 of 2 workers did it")
            assert set(told["workers"]) == {a.url, b.url}
            assert all(said["status"] == 200 and said["done"] for said in told["workers"].values())
            for worker in (a, b):
                (exchange,) = worker.requests
                assert (exchange.method, exchange.path) == ("POST", path + "?a=%20b&a=c")
                assert exchange.body == body


async def test_tensors_keep_their_bytes_and_content_type():
    tensors = bytes(range(256)) * 40_000
    kind = {"content-type": "application/octet-stream"}
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        path = "/update_weights_from_tensor?weight_version=5"
        status, _, _ = await gateway.post(path, tensors, headers=kind)
        (exchange,) = worker.requests
        assert status == 200
        assert exchange.body == tensors
        assert exchange.headers["content-type"] == "application/octet-stream"
        _, versions = await gateway.get("/get_weight_version")
        assert versions == {"weight_version": "5", "expected": "5", "workers": {worker.url: "5"}}


async def test_a_body_over_the_limit_is_refused_and_reaches_nobody():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, gateway={"max_body_bytes": 2048}) as gateway,
    ):
        status, told, _ = await gateway.post("/update_weights_from_tensor", b"x" * 3000)
        assert (status, told["error"]["code"]) == (413, "body_too_large")
        assert worker.requests == []


async def test_if_one_cannot_be_reached_the_others_do_it_and_the_call_says_who_did_not():
    async with scripted_worker() as a, scripted_worker() as b, running_gateway(a.url, b.url) as gateway:
        await b.kill()
        status, told, _ = await gateway.post("/pause_generation", {})
        assert (status, told["success"]) == (502, False)
        assert told["error"]["code"] == "worker_failed"
        assert told["message"] == "1 of 2 workers did it"
        assert told["workers"][a.url]["done"]
        assert told["workers"][b.url]["status"] is None
        assert "unreachable" in told["workers"][b.url]["answer"]


async def test_a_worker_that_says_success_false_with_200_has_not_done_it():
    async def unwilling(exchange):
        await exchange.reply(200, b'{"success": false, "message": "busy"}')

    async with scripted_worker(unwilling) as worker, running_gateway(worker.url) as gateway:
        status, told, _ = await gateway.post("/update_weights_from_disk", {"weight_version": "2"})
        assert (status, told["workers"][worker.url]["done"]) == (502, False)
        assert (await gateway.get("/weight_version"))[1]["expected"] is None


@pytest.mark.parametrize(("statuses", "passed"), [((400, 400), 400), ((400, 422), 400), ((400, 500), 502)])
async def test_a_mistake_on_which_all_workers_agree_is_the_clients(statuses, passed):
    async with scripted_worker(Engine()) as a, scripted_worker(Engine()) as b:
        a.behaviour.refuses, b.behaviour.refuses = statuses
        async with running_gateway(a.url, b.url) as gateway:
            status, told, _ = await gateway.post("/flush_cache", {})
            assert (status, told["success"]) == (passed, False)
            assert told["error"]["message"]
            assert told["workers"][a.url] == {
                "done": False,
                "status": statuses[0],
                "answer": {"success": False, "message": "no"},
            }


async def test_workers_that_are_drained_or_down_are_told_too():
    async with scripted_worker() as a, scripted_worker() as b, running_gateway(a.url, b.url) as gateway:
        await gateway.post("/drain_worker", {"url": a.url})
        b.deaf = True
        await gateway.until(b.url, WorkerState.DOWN)
        assert (await gateway.post("/continue_generation", {}))[0] == 200
        assert paths(a) == paths(b) == ["/continue_generation"]


async def test_named_workers_alone_are_told_and_the_fleets_version_stays():
    async with scripted_worker(Engine()) as a, scripted_worker(Engine()) as b:
        a.behaviour.at(a), b.behaviour.at(b)
        async with running_gateway(a.url, b.url) as gateway:
            path = f"/update_weights_from_disk?worker={a.url}/"
            status, told, _ = await gateway.post(path, {"weight_version": "2"})
            assert (status, list(told["workers"])) == (200, [a.url])
            assert (paths(a), paths(b)) == (["/update_weights_from_disk"], [])
            _, versions = await gateway.get("/get_weight_version")
            assert (versions["expected"], versions["workers"]) == (None, {a.url: "2", b.url: "1"})
            status, told, _ = await gateway.post("/pause_generation?worker=http://never", {})
            assert (status, told["error"]["param"]) == (404, "worker")


async def test_without_workers_there_is_nobody_to_tell():
    async with running_gateway() as gateway:
        status, told, _ = await gateway.post("/pause_generation", {})
        assert (status, told["error"]["code"]) == (503, "no_workers")


async def test_the_calls_need_the_admin_key_when_there_is_one():
    async with scripted_worker() as worker:
        async with running_gateway(worker.url, gateway={"admin_key": "hush"}) as gateway:
            for path in ("/pause_generation", "/abort_request", "/update_weights_from_disk", "/flush_cache"):
                assert (await gateway.post(path, {}))[0] == 401
            assert (await gateway.post("/expect_weight_version", {"weight_version": "1"}))[0] == 401
            key = {"authorization": "Bearer hush"}
            assert (await gateway.post("/pause_generation", {}, headers=key))[0] == 200
            assert paths(worker) == ["/pause_generation"]


class Held:
    """Keeps every `/generate` until it is told to answer; answers the rest at once."""

    def __init__(self):
        self.arrived = asyncio.Event()
        self.answer = asyncio.Event()

    async def __call__(self, exchange):
        if exchange.path in ("/generate", "/v1/chat/completions", "/v1/completions"):
            self.arrived.set()
            await self.answer.wait()
        await exchange.reply(200, b"{}")


CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize("called", ["rid", "x-request-id"])
@pytest.mark.parametrize(
    ("path", "ask"),
    [
        ("/generate", ASK),
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", {"model": "m", "prompt": "hello"}),
    ],
)
async def test_an_abort_goes_to_the_worker_that_has_the_request_and_to_all_when_nobody_has(called, path, ask):
    one, other = Held(), Held()
    async with (
        scripted_worker(one) as a,
        scripted_worker(other) as b,
        running_gateway(a.url, b.url) as gateway,
    ):
        body = ask | ({"rid": "r-1"} if called == "rid" else {})
        headers = {"x-request-id": "r-1"} if called != "rid" else {}
        asking = asyncio.create_task(gateway.post(path, body, headers=headers))
        arrivals = [asyncio.create_task(held.arrived.wait()) for held in (one, other)]
        await asyncio.wait(arrivals, return_when=asyncio.FIRST_COMPLETED)
        for arrival in arrivals:
            arrival.cancel()
        holder = a if one.arrived.is_set() else b
        status, told, _ = await gateway.post("/abort_request", {"rid": "r-1"})
        assert (status, list(told["workers"])) == (200, [holder.url])
        status, told, _ = await gateway.post("/abort_request", {"rid": "r-1", "abort_all": True})
        assert (status, set(told["workers"])) == (200, {a.url, b.url})
        one.answer.set(), other.answer.set()
        assert (await asking)[0] == 200
        status, told, _ = await gateway.post("/abort_request", {"rid": "r-1"})
        assert (status, set(told["workers"])) == (200, {a.url, b.url})


async def test_a_worker_that_restarts_with_old_weights_is_not_used_until_it_is_updated():
    old, new = Engine(), Engine()
    async with scripted_worker(old) as a, scripted_worker(new) as b:
        old.at(a), new.at(b)
        async with running_gateway(a.url, b.url) as gateway:
            assert (await gateway.post("/update_weights_from_disk", {"weight_version": "2"}))[0] == 200
            await a.kill()
            await gateway.until(a.url, WorkerState.DOWN)
            old.version = a.weight_version = "1"
            await a.start(int(a.url.rpartition(":")[2]))
            await gateway.until(a.url, WorkerState.STALE)
            a.requests.clear()
            _, listing = await gateway.get("/list_workers")
            shown = listing["workers"][0]
            assert (shown["state"], shown["weight_version"]) == ("stale", "1")
            assert shown["last_error"] == "its weights are version '1'; the fleet's are '2'"
            answers = [await gateway.post("/generate", ASK) for _ in range(6)]
            assert {answer["meta_info"]["weight_version"] for _, answer, _ in answers} == {"2"}
            assert paths(a) == []
            old.version = a.weight_version = "2"  # its trainer reaches it directly
            await gateway.until(a.url, WorkerState.READY)
            assert (await gateway.get("/list_workers"))[1]["workers"][0]["last_error"] is None


async def test_a_worker_that_refused_an_update_waits_and_the_next_update_brings_it_back():
    good, bad = Engine(), Engine()
    async with scripted_worker(good) as a, scripted_worker(bad) as b:
        good.at(a), bad.at(b)
        async with running_gateway(a.url, b.url) as gateway:
            bad.refuses = 500
            assert (await gateway.post("/update_weights_from_disk", {"weight_version": "2"}))[0] == 502
            assert gateway.gateway.registry.get_worker(b.url).state is WorkerState.STALE
            bad.refuses = None
            assert (await gateway.post("/update_weights_from_disk", {"weight_version": "3"}))[0] == 200
            assert gateway.gateway.registry.get_worker(b.url).state is WorkerState.READY


async def test_an_answer_with_old_weights_has_the_worker_asked_and_taken_out():
    engine = Engine()
    async with scripted_worker(engine) as worker:
        engine.at(worker)
        slow = {"interval_s": 60}
        async with running_gateway(worker.url, routing={"health": slow}) as gateway:
            assert (await gateway.post("/update_weights_from_disk", {"weight_version": "2"}))[0] == 200
            engine.version = worker.weight_version = "1"  # restarted, faster than any probe
            assert (await gateway.post("/generate", ASK))[0] == 200
            await gateway.until(worker.url, WorkerState.STALE)


async def test_when_nobody_has_the_fleets_weights_the_client_is_told_so_and_the_gate_can_be_opened():
    engine = Engine()
    async with scripted_worker(engine) as worker:
        engine.at(worker)
        async with running_gateway(worker.url) as gateway:
            status, versions, _ = await gateway.post("/expect_weight_version", {"weight_version": 9})
            assert (status, versions["expected"]) == (200, "9")
            status, told, headers = await gateway.post("/generate", ASK)
            assert (status, told["error"]["code"], headers["retry-after"]) == (503, "no_workers", "1")
            assert (
                "waits for weights: its weights are version '1'; the fleet's are '9'"
                in told["error"]["message"]
            )
            assert (await gateway.get("/health"))[1]["weights"]["expected"] == "9"
            await gateway.post("/expect_weight_version", {"weight_version": None})
            assert (await gateway.post("/generate", ASK))[0] == 200
            for bad in ({"weight_version": ""}, {"weight_version": [1]}, {}):
                status, told, _ = await gateway.post("/expect_weight_version", bad)
                assert (status, told["error"]["param"]) == (400, "weight_version")


async def test_a_request_gets_weights_as_new_as_it_wants_or_is_told_why_not():
    old, new = Engine("4"), Engine("6")
    async with scripted_worker(old) as a, scripted_worker(new) as b:
        old.at(a), new.at(b)
        async with running_gateway(a.url, b.url) as gateway:
            for limit in ({"max_staleness": 1}, {"min_weight_version": "5"}, {"min_weight_version": 6}):
                for _ in range(3):
                    _, answer, _ = await gateway.post("/generate", ASK | limit)
                    assert answer["meta_info"]["weight_version"] == "6"
            assert all("max_staleness" not in exchange.json() for exchange in b.requests)
            assert all("min_weight_version" not in exchange.json() for exchange in b.requests)
            b.requests.clear()
            headers = {"x-radixway-max-staleness": "0"}
            assert (await gateway.post("/generate", ASK, headers=headers))[0] == 200
            assert not any(name.startswith("x-radixway") for name in b.requests[0].headers)
            status, _, headers = await gateway.chat(stream=False)
            assert status == 200
            await b.kill()
            await gateway.until(b.url, WorkerState.DOWN)
            status, told, headers = await gateway.post("/generate", ASK | {"min_weight_version": "5"})
            assert (status, told["error"]["code"]) == (503, "weights_too_old")
            assert "min_weight_version" in told["error"]["message"]
            assert headers["retry-after"] == "1"


async def test_limits_that_make_no_sense_are_refused_with_their_name():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        for body in (
            {"max_staleness": -1},
            {"max_staleness": "1"},
            {"max_staleness": 2**40},
            {"min_weight_version": ""},
            {"min_weight_version": 1.5},
            {"rid": 7},
        ):
            status, told, _ = await gateway.post("/generate", ASK | body)
            assert (status, told["error"]["param"]) == (400, next(iter(body)))
        for name, value in (
            ("x-radixway-max-staleness", "-1"),
            ("x-radixway-max-staleness", "many"),
            ("x-radixway-min-weight-version", "v" * 300),
        ):
            status, told, _ = await gateway.post("/generate", ASK, headers={name: value})
            assert (status, told["error"]["param"]) == (400, name)


async def test_a_session_stays_and_is_free_when_it_is_finished():
    async with scripted_worker() as a, scripted_worker() as b:
        async with running_gateway(a.url, b.url, routing={"policy": "sticky_least_loaded"}) as gateway:
            for _ in range(4):
                assert (await gateway.post("/generate", ASK | {"session_id": "s"}))[0] == 200
            assert sorted((len(a.requests), len(b.requests))) == [0, 4]
            for query, body, finished in (("", {"session_id": "s"}, True), ("?session_id=s", b"", False)):
                status, told, _ = await gateway.post("/finish_session" + query, body)
                assert (status, told) == (200, {"session_id": "s", "finished": finished})
            for body in ({}, {"session_id": ""}, {"session_id": 5}, b"", b"{"):
                status, told, _ = await gateway.post("/finish_session", body)
                assert status == 400
                assert told["error"]["param"] == (None if body == b"{" else "session_id")


async def test_every_path_has_a_name_of_its_own_in_openapi():
    async with running_gateway() as gateway:
        _, told = await gateway.get("/openapi.json")
    names = [call["operationId"] for calls in told["paths"].values() for call in calls.values()]
    assert len(names) == len(set(names)) and "/flush_cache" in told["paths"]
