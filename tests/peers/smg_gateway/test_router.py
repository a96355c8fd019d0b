"""SMG's cases of workers: added, changed, removed, restarted, asked for their loads, and routed to by key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from support.engine_process import engine_process
from support.gateway_process import gateway_process
from support.peer_servers import tutored_engine
from support.ported_cases import ported
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

MODEL = "tutored"
FOLDER = "e2e_test/router"
WORKERS = f"{FOLDER}/test_worker_api.py"
LOADS = f"{FOLDER}/test_loads.py"
KEYS = f"{FOLDER}/test_routing_key.py"
RESTART = f"{FOLDER}/test_worker_restart.py"
OVERLOAD = f"{FOLDER}/test_overload.py"
EMBEDDINGS = "e2e_test/embeddings/test_basic.py"
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
LONG = HELLO | {"max_tokens": 600, "ignore_eos": True, "temperature": 0}
WAIT_S = 60


@contextmanager
def started_gateway(directory: Path, *workers: str, **sections: Any) -> Iterator[httpx.Client]:
    """A client of a gateway of its own in front of `workers`."""
    tree = {"gateway": {"port": 0}, "workers": [{"url": url} for url in workers], **sections}
    with gateway_process(directory, tree, home=directory / "home") as (url, _):
        with httpx.Client(base_url=url, timeout=120) as client:
            yield client


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[httpx.Client]:
    """A gateway without workers, as SMG's `--enable-igw`."""
    with started_gateway(tmp_path) as client:
        yield client


def list_workers(client: httpx.Client) -> list[dict[str, Any]]:
    answer = client.get("/workers")
    assert answer.status_code == 200, answer.text
    return answer.json()["workers"]


def add(client: httpx.Client, url: str, **fields: Any) -> str:
    """Add a worker as SMG's tests do; its id."""
    answer = client.post("/workers", json={"url": url} | fields)
    assert answer.status_code in (200, 202), answer.text
    worker_id = answer.json()["worker_id"]
    wait_until(lambda: any(worker["id"] == worker_id for worker in list_workers(client)))
    return worker_id


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)


def error_code(answer: httpx.Response) -> str | None:
    told = answer.json()
    return told.get("error", told).get("code")


@ported(WORKERS, "TestWorkerAPI::test_list_workers")
def test_workers_have_urls(wire: httpx.Client):
    workers = list_workers(wire)
    assert workers and all(worker["url"] and worker["model_id"] for worker in workers)


@ported(WORKERS, "TestWorkerAPI::test_list_models")
def test_models_have_ids(wire: httpx.Client):
    models = wire.get("/v1/models").json()["data"]
    assert models and all("id" in model for model in models)


@ported(WORKERS, "TestWorkerAPI::test_health_endpoint")
def test_the_gateway_is_well(wire: httpx.Client):
    assert wire.get("/health").status_code == 200


@ported(WORKERS, "TestIGWMode::test_igw_start_empty")
def test_a_gateway_without_workers_is_well(empty: httpx.Client):
    assert empty.get("/health").status_code == 200
    assert list_workers(empty) == []


@ported(WORKERS, "TestIGWMode::test_igw_add_worker")
def test_a_worker_is_added(empty: httpx.Client, engine: str):
    add(empty, engine)
    assert [worker["url"] for worker in list_workers(empty)] == [engine]
    assert empty.get("/v1/models").json()["data"]
    assert empty.post("/v1/chat/completions", json=HELLO).status_code == 200


@ported(WORKERS, "TestIGWMode::test_igw_add_and_remove_worker")
def test_a_worker_is_removed(empty: httpx.Client, engine: str):
    worker_id = add(empty, engine)
    assert empty.delete(f"/workers/{worker_id}").status_code in (200, 202)
    wait_until(lambda: list_workers(empty) == [])


@ported(WORKERS, "TestIGWMultiWorker::test_igw_multiple_workers")
def test_two_workers_are_added(empty: httpx.Client, engine: str, start_engine: Callable[..., str]):
    for url in (engine, start_engine(max_running=1)):
        add(empty, url)
    assert len(list_workers(empty)) == 2


@ported(WORKERS, "TestDisableHealthCheck::test_disable_health_check_workers_immediately_healthy")
def test_an_added_worker_is_well_at_once(empty: httpx.Client, engine: str):
    add(empty, engine, disable_health_check=True)
    assert all(worker["is_healthy"] for worker in list_workers(empty))


@ported(WORKERS, "TestDisableHealthCheck::test_disable_health_check_gateway_starts_without_health_checker")
def test_a_gateway_that_has_nobody_to_check_is_well(empty: httpx.Client):
    assert empty.get("/health").status_code == 200


@ported(WORKERS, "TestWorkerAPIRestSemantics::test_post_duplicate_url_returns_409")
def test_a_worker_cannot_be_added_twice(empty: httpx.Client, engine: str):
    add(empty, engine)
    answer = empty.post("/workers", json={"url": engine})
    assert answer.status_code == 409
    assert "WORKER_ALREADY_EXISTS" in answer.json().get("code", "")


@ported(WORKERS, "TestWorkerAPIRestSemantics::test_patch_partial_update")
def test_a_workers_fields_are_changed(empty: httpx.Client, engine: str):
    worker_id = add(empty, engine)
    change = {"priority": 100, "cost": 2.5, "labels": {"env": "test"}}
    assert empty.patch(f"/workers/{worker_id}", json=change).status_code in (200, 202)
    told = empty.get(f"/workers/{worker_id}").json()
    assert {name: told.get(name) for name in change} == change


@ported(WORKERS, "TestWorkerAPIRestSemantics::test_put_full_replace")
def test_a_worker_is_replaced(empty: httpx.Client, engine: str):
    worker_id = add(empty, engine)
    assert empty.put(f"/workers/{worker_id}", json={"url": engine}).status_code in (200, 202)
    assert worker_id in [worker["id"] for worker in list_workers(empty)]


@ported(WORKERS, "TestWorkerAPIRestSemantics::test_put_url_mismatch_returns_400")
def test_a_workers_url_cannot_be_replaced(empty: httpx.Client, engine: str):
    worker_id = add(empty, engine)
    answer = empty.put(f"/workers/{worker_id}", json={"url": "http://different-url:9999"})
    assert answer.status_code == 400


def read_loads(client: httpx.Client) -> list[dict[str, Any]]:
    answer = client.get("/loads")
    assert answer.status_code == 200, answer.text
    return answer.json()["loads"]


def check_load(load: dict[str, Any]) -> None:
    for name in ("num_running_reqs", "num_waiting_reqs", "num_total_reqs"):
        assert isinstance(load[name], int) and load[name] >= 0
    assert 0 <= load.get("token_usage", 0) <= 1 and load.get("dp_rank", 0) >= 0


@ported(LOADS, "TestWorkerLoadReports::test_every_worker_reports_load")
def test_every_worker_has_a_load(wire: httpx.Client):
    urls = {worker["url"] for worker in list_workers(wire)}
    wait_until(lambda: urls <= {load.get("worker") for load in read_loads(wire)})
    for load in read_loads(wire):
        assert load.get("worker_type") == "regular"
        check_load(load)


@contextmanager
def in_flight(client: httpx.Client, *bodies: dict[str, Any], **more: Any) -> Iterator[list[httpx.Response]]:
    """Send `bodies` at once from threads; all are answered at the end, into the list."""
    answers: list[httpx.Response] = []
    with ThreadPoolExecutor(len(bodies)) as pool:
        sent = [pool.submit(client.post, "/v1/chat/completions", json=body, **more) for body in bodies]
        yield answers
        answers += [each.result() for each in sent]


@ported(LOADS, "TestWorkerLoadReports::test_report_reflects_in_flight_requests")
def test_a_load_shows_what_is_in_flight(wire: httpx.Client):
    with in_flight(wire, *[LONG] * 8) as answers:
        wait_until(
            lambda: any(load["num_running_reqs"] + load["num_waiting_reqs"] for load in read_loads(wire))
        )
    assert {answer.status_code for answer in answers} == {200}


@pytest.fixture(scope="module")
def pinned(engine: str, start_engine: Callable[..., str], tmp_path_factory) -> Iterator[httpx.Client]:
    """A gateway that keeps a key at one of two workers."""
    urls = (engine, start_engine(max_running=1))
    policy = {"policy": {"name": "session"}, "session": {"fields": ["rid"], "fields_first": True}}
    with started_gateway(tmp_path_factory.mktemp("pinned"), *urls, routing=policy) as client:
        yield client


def serving_worker(client: httpx.Client, key: str, **fields: str) -> str:
    """The worker that carries a long answer for `key`; `fields` are more of the body's."""
    busy: set[str] = set()

    def is_busy() -> bool:
        busy.update(worker["url"] for worker in list_workers(client) if worker["load"] > 0)
        return bool(busy)

    with in_flight(client, LONG | fields, headers={"x-smg-routing-key": key}) as answers:
        wait_until(is_busy)
    assert answers[0].status_code == 200, answers[0].text
    (found,) = busy
    return found


@ported(KEYS, "TestRoutingKeyPinning::test_header_key_is_sticky")
def test_a_key_stays_at_one_worker(pinned: httpx.Client):
    assert len(list_workers(pinned)) == 2
    assert len({serving_worker(pinned, "session-sticky") for _ in range(3)}) == 1
    homes = {serving_worker(pinned, f"lineage-{number}") for number in range(8)}
    assert len(homes) == 2, "other keys have other workers"


@ported(KEYS, "TestRoutingKeyPinning::test_body_rid_outranks_header_key")
def test_a_rid_outranks_a_key(pinned: httpx.Client):
    homes = {key: serving_worker(pinned, key) for key in map("lineage-{}".format, range(8))}
    one, other = (next(key for key, home in homes.items() if home == url) for url in set(homes.values()))
    assert serving_worker(pinned, one, rid=other) == homes[other]
    assert serving_worker(pinned, other, rid=one) == homes[one]


@ported(RESTART, "TestWorkerRestart::test_worker_returns_to_rotation_after_restart")
def test_a_worker_comes_back_after_a_restart(tmp_path: Path):
    health = {"interval_s": 0.2, "timeout_s": 2, "failure_threshold": 1, "backoff_max_s": 0.5}
    with ExitStack() as stack:
        directory = tmp_path / "engine"
        directory.mkdir()
        with tutored_engine(directory) as url:
            client = stack.enter_context(started_gateway(tmp_path / "g", url, routing={"health": health}))
            wait_until(lambda: client.post("/v1/chat/completions", json=HELLO).status_code == 200)
        wait_until(lambda: not list_workers(client)[0]["is_healthy"])
        began = time.monotonic()
        refused = client.post("/v1/chat/completions", json=HELLO)
        assert time.monotonic() - began < 20, "it does not hang"
        assert refused.status_code == 503
        assert error_code(refused) == "no_available_workers"
        port = int(url.rpartition(":")[2])
        with engine_process("--config", str(directory / "radixway.yaml"), port=port):
            wait_until(lambda: list_workers(client)[0]["is_healthy"])
            wait_until(lambda: client.post("/v1/chat/completions", json=HELLO).status_code == 200)


@ported(OVERLOAD, "TestOverloadShedSglang::test_shed_carries_its_own_code_and_recovers")
def test_an_overloaded_fleet_says_so_and_recovers(start_engine: Callable[..., str], tmp_path: Path):
    limits = {"max_in_flight_per_worker": 4, "queue": {"size": 0}}
    with started_gateway(tmp_path, start_engine(max_running=1), routing=limits) as client:
        wait_until(lambda: client.post("/v1/chat/completions", json=HELLO).status_code == 200)
        with in_flight(client, *[LONG] * 4) as answers:
            wait_until(lambda: list_workers(client)[0]["load"] == 4)
            probe = client.post("/v1/chat/completions", json=HELLO)
        assert {answer.status_code for answer in answers} == {200}
        assert probe.status_code == 503
        assert error_code(probe) == "worker_overload_protection_shed"
        assert int(probe.headers["retry-after"]) >= 1
        wait_until(lambda: client.post("/v1/chat/completions", json=HELLO).status_code == 200)


async def embed(exchange: Exchange) -> None:
    """A worker's embeddings: as many numbers for every text, and a token a word."""
    given = exchange.json()["input"]
    texts = [given] if isinstance(given, str) else given
    tokens = sum(len(text.split()) or 1 for text in texts)
    data = [{"object": "embedding", "index": at, "embedding": [0.5] * 8} for at in range(len(texts))]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    told = {"object": "list", "model": "m", "data": data, "usage": usage}
    await exchange.reply(200, json.dumps(told).encode())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("Hello world", 1, marks=ported(EMBEDDINGS, "TestEmbeddingBasic::test_embedding_single")),
        pytest.param(
            ["Hello world", "SGLang is fast"],
            2,
            marks=ported(EMBEDDINGS, "TestEmbeddingBasic::test_embedding_batch"),
        ),
        pytest.param(
            "A much longer text, so that the numbers are as many whatever its length",
            1,
            marks=ported(EMBEDDINGS, "TestEmbeddingBasic::test_embedding_dimensions_consistent"),
        ),
        pytest.param("", 1, marks=ported(EMBEDDINGS, "TestEmbeddingBasic::test_embedding_empty_string")),
        pytest.param(
            "Hello 世界! 🚀 Привет мир",
            1,
            marks=ported(EMBEDDINGS, "TestEmbeddingBasic::test_embedding_unicode"),
        ),
    ],
    ids=["single", "batch", "long", "empty", "unicode"],
)
async def test_a_workers_embeddings_come_through(text: str | list[str], count: int):
    async with scripted_worker(behaviour=embed) as worker, running_gateway(worker.url) as gateway:
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as client:
            answer = await client.embeddings.create(model="m", input=text, encoding_format="float")
    assert worker.requests[-1].json()["input"] == text
    assert answer.object == "list" and [each.index for each in answer.data] == list(range(count))
    assert all(each.object == "embedding" and len(each.embedding) == 8 for each in answer.data)
    assert all(isinstance(number, float) for each in answer.data for number in each.embedding)
    assert 0 < answer.usage.prompt_tokens == answer.usage.total_tokens
