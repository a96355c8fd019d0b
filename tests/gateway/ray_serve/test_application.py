"""The application on a real Ray: one gateway and two engines with the bundled model."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count

import aiohttp
import psutil
import pytest
import ray
from openai import AsyncOpenAI
from ray import serve
from ray.exceptions import RayTaskError

from support.ray_cluster import RayApplication, ray_application

pytestmark = pytest.mark.slow  # Ray and two engines take most of a minute to start

MODEL = "radixway-guide"
PAGE = 16
PATIENCE_S = 300  # before a test is taken to hang
CONTROLLER = "SERVE_CONTROLLER_ACTOR"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RADIXWAY_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S", "0.5")
        with ray_application(chat={"enabled": False}) as application:
            application.deploy(replicas=2)
            yield application


@pytest.fixture
async def client(app):
    async with aiohttp.ClientSession(app.url, timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session:
        yield session


async def engines_ready(client: aiohttp.ClientSession, number: int) -> list[dict]:
    """Wait until the gateway has exactly as many engines; gives them as `/list_workers` does."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with client.get("/list_workers") as response:
                workers = (await response.json())["workers"]
            if [worker["state"] for worker in workers] == ["ready"] * number:
                return workers
            await asyncio.sleep(0.1)


def urls(workers: list[dict]) -> set[str]:
    return {worker["url"] for worker in workers}


def body(text: str = "What is Radixway?", **more) -> dict:
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "messages": messages, "max_tokens": 16, "temperature": 0, **more}


async def chat(client: aiohttp.ClientSession, text: str = "What is Radixway?", **more) -> dict:
    async with client.post("/v1/chat/completions", json=body(text, **more)) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_the_gateway_finds_the_engines_and_follows_what_they_hold(client):
    workers = await engines_ready(client, 2)
    assert {worker["kv_events"]["state"] for worker in workers} <= {"following", "replaying", "connecting"}
    assert {tuple(worker["sources"]) for worker in workers} == {("ray radixway/engine",)}


async def test_an_answer_names_its_request_once_and_the_engine_that_gave_it(client):
    workers = await engines_ready(client, 2)
    headers = {"x-request-id": "named-by-the-client"}
    async with client.post("/v1/chat/completions", json=body(), headers=headers) as response:
        assert response.headers.getall("x-request-id") == ["named-by-the-client"]
        assert response.headers["x-radixway-worker"] in {worker["name"] for worker in workers}
        assert (await response.json())["choices"][0]["message"]["content"]


async def test_a_stream_comes_in_pieces_and_says_what_the_whole_answer_does(app, client):
    await engines_ready(client, 2)
    whole = await chat(client)
    openai = AsyncOpenAI(base_url=f"{app.url}/v1", api_key="none")
    stream = await openai.chat.completions.create(**body(), stream=True)
    pieces = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
    assert len(pieces) > 8
    assert "".join(filter(None, pieces)) == whole["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("wrong", "status", "named"),
    [({"temperature": "hot"}, 400, "temperature"), ({"model": "nobody"}, 404, "model"), (None, 400, None)],
)
async def test_mistakes_of_clients_come_back_in_words(client, wrong, status, named):
    await engines_ready(client, 2)
    sent = b"{" if wrong is None else json.dumps(body() | wrong).encode()
    headers = {"content-type": "application/json"}
    async with client.post("/v1/chat/completions", data=sent, headers=headers) as response:
        error = (await response.json())["error"]
        assert (response.status, error["param"]) == (status, named)


async def test_a_client_that_leaves_frees_its_engine(client):
    workers = await engines_ready(client, 2)
    endless = body("Count.", stream=True) | {"max_tokens": 1500, "ignore_eos": True}
    async with client.post("/v1/chat/completions", json=endless) as response:
        assert response.status == 200
        await response.content.readany()
        assert await running(workers) == 1
    async with asyncio.timeout(PATIENCE_S):
        while await running(workers):  # noqa: ASYNC110, another process tells nobody
            await asyncio.sleep(0.1)


async def running(workers: list[dict]) -> int:
    """Requests that the engines say they run."""
    total = 0
    async with aiohttp.ClientSession() as outside:
        for worker in workers:
            async with outside.get(f"{worker['url']}/server_info") as response:
                total += (await response.json())["running"]
    return total


async def test_conversations_of_many_turns_hit_nearly_all_that_can_be_hit(client):
    await engines_ready(client, 2)
    places = asyncio.Semaphore(4)
    asked = found = possible = 0

    async def converse(number: int) -> None:
        nonlocal asked, found, possible
        messages = [{"role": "system", "content": f"Conversation {number}. " + f"Be brief, {number}. " * 8}]
        held = 0
        for turn in range(4):
            messages.append({"role": "user", "content": f"Question {turn}: what is a radix tree good for?"})
            async with places:
                answer = await chat(client, messages=messages)
            usage = answer["usage"]
            asked += usage["prompt_tokens"]
            found += usage["prompt_tokens_details"]["cached_tokens"]
            possible += min(held, usage["prompt_tokens"] - 1) // PAGE * PAGE
            held = usage["prompt_tokens"] + usage["completion_tokens"] - 1
            messages.append(answer["choices"][0]["message"])

    await asyncio.gather(*map(converse, range(8)))
    assert possible / asked > 0.5
    assert found / asked > possible / asked - 0.05


async def test_others_in_the_cluster_ask_an_engine_by_handle(client):
    await engines_ready(client, 2)
    handle = serve.get_deployment_handle("engine", "radixway").options(stream=True)
    pieces = [piece async for piece in handle.ask.remote(body(stream=True))]
    assert b"".join(pieces).endswith(b"data: [DONE]\n\n")
    assert len(pieces) > 1
    with pytest.raises(RayTaskError, match="temperature"):
        [piece async for piece in handle.ask.remote(body(temperature="hot"))]


async def test_serves_controller_may_die(app: RayApplication, client):
    """Ray starts another one, and the gateway follows that."""
    await engines_ready(client, 2)
    ray.kill(ray.get_actor(CONTROLLER, namespace="serve"), no_restart=False)
    await asyncio.to_thread(app.deploy, replicas=1)
    await engines_ready(client, 1)
    await asyncio.to_thread(app.deploy, replicas=2)
    await engines_ready(client, 2)


async def test_an_engine_whose_server_ends_is_replaced(client):
    before = await engines_ready(client, 2)
    (server,) = (
        process
        for process in psutil.process_iter(["cmdline"])
        if before[0]["url"].rpartition(":")[2] in (process.info["cmdline"] or ())
    )
    server.kill()
    async with asyncio.timeout(PATIENCE_S):
        while before[0]["url"] in urls(await engines_ready(client, 2)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


class Load:
    """Clients that ask without a pause until they are told to stop; every answer is checked."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self.answered = 0
        self._client = client
        self._stop = asyncio.Event()
        self._numbers = count()

    async def __aenter__(self) -> Load:
        self._clients = [asyncio.create_task(self._ask(streamed=number % 2 == 0)) for number in range(6)]
        await self.more(6)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await asyncio.gather(*self._clients)

    async def more(self, answers: int) -> None:
        """Wait until that many more have been answered, or one has not."""
        until = self.answered + answers
        while self.answered < until:
            for task in self._clients:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)

    async def _ask(self, streamed: bool) -> None:
        while not self._stop.is_set():
            asked = body(f"Question {next(self._numbers)}: what is Radixway?") | {"max_tokens": 8}
            async with self._client.post(
                "/v1/chat/completions", json=asked | {"stream": streamed}
            ) as response:
                said = await response.text()
                assert response.status == 200, said
                if not streamed:
                    assert json.loads(said)["usage"]["completion_tokens"]
            self.answered += 1


async def test_an_engine_killed_by_ray_under_load_costs_no_request_that_was_not_answered(
    app: RayApplication, client
):
    before = urls(await engines_ready(client, 2))
    async with Load(client) as load:
        app.kill(app.replicas("engine")[0])
        await load.more(20)
        after = urls(await engines_ready(client, 2))
        await load.more(6)
    assert len(after & before) == 1


async def test_scaling_from_two_to_four_to_one_under_load_drops_no_request(app: RayApplication, client):
    before = urls(await engines_ready(client, 2))
    async with Load(client) as load:
        await asyncio.to_thread(app.deploy, replicas=4)
        four = urls(await engines_ready(client, 4))
        await load.more(20)
        await asyncio.to_thread(app.deploy, replicas=1)
        one = urls(await engines_ready(client, 1))
        await load.more(20)
    assert before < four  # those that ran went on
    assert one < four
    await asyncio.to_thread(app.deploy, replicas=2)


async def test_engines_become_more_with_what_they_have_in_hand_and_fewer_without(app: RayApplication, client):
    quick = {"upscale_delay_s": 0, "downscale_delay_s": 1, "look_back_period_s": 2}
    limits = {"min_replicas": 1, "max_replicas": 2, "target_ongoing_requests": 1}
    await asyncio.to_thread(app.deploy, autoscaling=limits | quick)
    await engines_ready(client, 1)
    async with Load(client) as load:
        await engines_ready(client, 2)
        await load.more(6)
    await engines_ready(client, 1)
    await asyncio.to_thread(app.deploy, replicas=2)


async def test_two_gateways_tell_each_other_their_load(app: RayApplication, client):
    await asyncio.to_thread(app.deploy, gateways=2, replicas=2)
    heard = {}
    async with asyncio.timeout(PATIENCE_S):
        while len(heard) < 2:
            async with client.get("/health", headers={"connection": "close"}) as response:
                told = (await response.json())["load_sync"]
            if told["peers"]:
                heard[told["gateway"]] = told["peers"][0]["gateway"]
    one, other = heard
    assert heard == {one: other, other: one}
    await asyncio.to_thread(app.deploy, replicas=2)


async def test_the_command_deploys_under_a_prefix_and_tells_and_deletes(
    app: RayApplication, client, tmp_path
):
    workers = await engines_ready(client, 2)
    config = {
        "chat": {"enabled": False},
        "workers": [{"url": worker["url"]} for worker in workers],
        "ray": {"application": "second", "route_prefix": "/second", "engines": []},
    }
    file = tmp_path / "radixway.yaml"
    file.write_text(json.dumps(config))
    said = await radixway_ray(app, "deploy", str(file))
    assert "gateway" in said
    assert "1 running" in said
    async with client.get("/second/v1/models") as response:
        assert response.status == 200
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with client.post("/second/v1/chat/completions", json=body()) as response:
                if response.status == 200:
                    break
            await asyncio.sleep(0.1)
    assert "1 running" in await radixway_ray(app, "status", "--name", "second")
    await radixway_ray(app, "delete", "--name", "second")
    with pytest.raises(AssertionError, match="there is no application 'second'"):
        await radixway_ray(app, "status", "--name", "second")
    assert (await engines_ready(client, 2)) is not None


async def radixway_ray(app: RayApplication, *arguments: str) -> str:
    """What the command prints; fails with what it complains of."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "radixway", "ray", *arguments, "--address", app.address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return said.decode()
