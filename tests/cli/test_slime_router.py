"""`radixway slime-router`, started and used as the Slime router's guide says."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

import radixway.bundled
from radixway.cli.options import repeat_options
from support.engine_process import engine_process
from support.generate_worker import ABORT, reply
from support.scripted_worker import Exchange, scripted_worker
from support.slime_rollout import GROUP_SIZE, SlimeRollout

GUIDE = Path(radixway.bundled.__file__).parent / "guide"
MINE = """
from starlette.middleware.base import BaseHTTPMiddleware


class Inner(BaseHTTPMiddleware):
    def __init__(self, app, *, router):
        super().__init__(app)
        self.checkpoint = router.args.hf_checkpoint

    async def dispatch(self, request, call_next):
        response = await call_next(request)
        response.headers.append("x-order", "inner")
        response.headers["x-checkpoint"] = str(self.checkpoint)
        return response


class Outer:
    def __init__(self, app, *, router):
        self.app = app

    async def __call__(self, scope, receive, send):
        async def mark(message):
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-order", b"outer"))
            await send(message)

        await self.app(scope, receive, mark)
"""


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("--p a b --q c", "--p a --p b --q c"),
        ("--p a --p b", "--p a --p b"),
        ("--q a b", "--q a b"),
        ("--p --q c", "--p --q c"),
        ("--p=a b", "--p=a b"),
        ("", ""),
    ],
)
def test_an_option_takes_values_up_to_the_next_option(written, read):
    assert list(repeat_options(written.split(), {"--p"})) == read.split()


@asynccontextmanager
async def slime_router(*args, cwd=None, command="slime-router", port="--sglang-router-port"):
    """The running command's URL and a client."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "radixway", command, port, "0", *args),
        stdout=asyncio.subprocess.PIPE,
        cwd=cwd,
    )
    try:
        async with asyncio.timeout(60), aiohttp.ClientSession() as client:
            line = (await process.stdout.readline()).decode()
            yield line.split()[1], client
    finally:
        process.terminate()
        await process.wait()


async def test_the_guides_command_line_and_calls(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "tokenizer.json").write_text("{}")
    async with scripted_worker() as worker:
        started = slime_router(
            *("--sglang-router-ip", "127.0.0.1", "--hf-checkpoint", str(tmp_path), "--use-slime-router"),
            *("--slime-router-middleware-paths", "mine.Inner", "mine.Outer"),
            *("--rollout-health-check-interval", "0.05", "--sglang-server-concurrency", "8"),
            cwd=tmp_path,
        )
        async with started as (url, client):
            async with client.post(url + "/add_worker", params={"url": worker.url + "/"}) as response:
                assert await response.json() == {"status": "success", "worker_urls": {worker.url: 0}}
            async with client.post(url + "/add_worker", json={"url": worker.url}) as response:
                assert await response.json() == {"status": "success", "worker_urls": {worker.url: 0}}
            body = {"text": "hello", "sampling_params": {"max_new_tokens": 4}, "odd": [1e-7]}
            async with client.post(url + "/generate", json=body) as response:
                assert response.status == 200
                assert response.headers.getall("x-order") == ["inner", "outer"]
                assert response.headers["x-checkpoint"] == str(tmp_path)
            assert worker.requests[-1].json() == body
            async with client.get(url + "/list_workers") as response:
                assert (await response.json())["urls"] == [worker.url]
            async with client.get(url + "/metrics") as response:
                router = (await response.json())["router"]
            assert router == {"active_workers": 1, "worker_loads": {worker.url: 0}, "total_in_flight": 0}
            async with client.post(url + "/remove_worker", params={"url": worker.url}) as response:
                assert await response.json() == {"status": "success", "worker_urls": {}}
            async with client.post(url + "/add_worker") as response:
                assert response.status == 400
                assert "url" in (await response.json())["error"]["message"]


@pytest.mark.slow
async def test_the_guides_quick_start_with_a_real_engine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    paths = ("--slime-router-middleware-paths", "mine.Inner")
    with engine_process() as (engine, _):
        async with slime_router("--hf-checkpoint", str(GUIDE), *paths, cwd=tmp_path) as (url, client):
            async with client.post(url + "/add_worker", params={"url": engine}) as response:
                assert (await response.json())["worker_urls"] == {engine: 0}
            sampling = {"max_new_tokens": 8, "temperature": 0.8}
            body = {"text": "你好,请介绍一下机器学习", "sampling_params": sampling, "return_logprob": True}
            async with client.post(url + "/generate", json=body) as response:
                told = await response.json()
                assert (response.status, response.headers["x-order"]) == (200, "inner")
            logprobs = told["meta_info"]["output_token_logprobs"]
            assert told["output_ids"] == [entry[1] for entry in logprobs]
            assert told["meta_info"]["finish_reason"]["type"] in ("length", "stop")
            async with client.get(url + "/metrics") as response:
                assert (await response.json())["router"]["total_in_flight"] == 0


SHORT = 3


class AbortableWorker:
    """A behaviour: long answers hang until somebody aborts; short ones and all that come later are whole."""

    def __init__(self) -> None:
        self.hanging = 0
        self.asked = asyncio.Semaphore(0)
        """Released for every answer that begins to hang."""
        self.aborted = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path == "/abort_request":
            assert exchange.json() == {"abort_all": True}
            self.aborted.set()
            await exchange.reply(200, b"")
        elif exchange.path.startswith("/v1/loads"):
            load = {"num_running_reqs": self.hanging, "num_waiting_reqs": 0}
            await exchange.reply(200, json.dumps({"loads": [load]}).encode())
        elif exchange.path == "/generate":
            finish = await self._finish_reason(exchange.json()["sampling_params"]["max_new_tokens"])
            ids = [20, 21] if finish is ABORT else [22, 23, 2]
            await exchange.reply(200, json.dumps(reply(ids, finish)).encode())

    async def _finish_reason(self, max_new_tokens: int) -> dict[str, object] | None:
        if max_new_tokens <= SHORT or self.aborted.is_set():
            return None
        self.hanging += 1
        self.asked.release()
        await self.aborted.wait()
        self.hanging -= 1
        return ABORT


RADIX_TREE = "slime.router.middleware_hub.radix_tree_middleware.RadixTreeMiddleware"


@pytest.mark.parametrize(
    ("options", "status", "attempts"),
    [((), "ABORTED", 1), (("--abort", "partial"), "ABORTED", 1), (("--abort", "resume"), "COMPLETED", 2)],
)
async def test_what_slime_aborts_at_the_workers_comes_back_partial(options, status, attempts):
    behaviour = AbortableWorker()
    async with scripted_worker(behaviour) as worker:
        started = slime_router(
            *("--hf-checkpoint", str(GUIDE), "--slime-router-middleware-paths", RADIX_TREE, *options)
        )
        async with started as (url, client):
            async with client.post(url + "/add_worker", params={"url": worker.url}) as response:
                assert response.status == 200
            payloads = [
                {"text": text, "return_logprob": True, "sampling_params": {"max_new_tokens": length}}
                for text, length in (("a", SHORT), ("b", 100), ("c", 100))
            ]

            async def until_rest_hangs() -> None:
                for _ in range(2 * GROUP_SIZE):
                    await behaviour.asked.acquire()

            finished, partial = await SlimeRollout(url, client).run(payloads, 1, until_rest_hangs)
    assert [sample.status for group in finished for sample in group] == ["COMPLETED"] * GROUP_SIZE
    samples = [sample for group in partial for sample in group]
    assert [sample.status for sample in samples] == [status] * 2 * GROUP_SIZE
    assert all(sample.tokens[:2] == [20, 21] for sample in samples)
    asked = [exchange for exchange in worker.requests if exchange.path == "/generate"]
    assert len(asked) == GROUP_SIZE + 2 * GROUP_SIZE * attempts, "how often workers were asked"


@pytest.mark.slow
async def test_slimes_rollout_aborts_real_engines_and_trains_on_what_there_is(tmp_path):
    with engine_process() as (first, _), engine_process() as (second, _):
        started = slime_router("--hf-checkpoint", str(GUIDE), "--slime-router-middleware-paths", RADIX_TREE)
        async with started as (url, client):
            for engine in (first, second):
                async with client.post(url + "/add_worker", params={"url": engine}) as response:
                    assert response.status == 200

            async def stats() -> list[dict]:
                told = []
                for engine in (first, second):
                    async with client.get(engine + "/server_info") as response:
                        told.append((await response.json())["stats"])
                return told

            async def until_rest_decodes() -> None:
                while any(each["running"] < 2 or each["generated_tokens"] < 20 for each in await stats()):
                    pass

            def payload(start: int, length: int) -> dict:
                sampling = {"max_new_tokens": length, "temperature": 1, "ignore_eos": True}
                ids = list(range(start, start + 30))
                return {"input_ids": ids, "return_logprob": True, "sampling_params": sampling}

            payloads = [payload(300, 8), payload(400, 4000), payload(500, 4000)]
            finished, partial = await SlimeRollout(url, client).run(payloads, 1, until_rest_decodes)
            requests = sum(each["requests"] for each in await stats())
    assert [len(sample.tokens) for group in finished for sample in group] == [8] * GROUP_SIZE
    samples = [sample for group in partial for sample in group]
    assert [sample.status for sample in samples] == ["ABORTED"] * 2 * GROUP_SIZE
    assert all(0 < len(sample.tokens) < 4000 for sample in samples)
    assert requests == 3 * GROUP_SIZE, "nothing was asked for again"


async def test_serve_takes_middleware_paths_too(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    paths = ("--middleware-paths", "mine.Inner", "mine.Outer")
    async with slime_router(*paths, cwd=tmp_path, command="serve", port="--port") as (url, client):
        async with client.get(url + "/health") as response:
            assert response.headers.getall("x-order") == ["inner", "outer"]


def refused(*args, env=None):
    told = subprocess.run(
        [sys.executable, "-m", "radixway", "slime-router", "--sglang-router-port", "0", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(env or {})},
    )
    assert told.returncode == 2
    assert "Traceback" not in told.stderr
    return told.stderr


def test_what_cannot_be_is_told_in_a_sentence(tmp_path):
    assert "no tokenizer.json in /no/such" in refused("--hf-checkpoint", "/no/such")
    told = refused("--slime-router-middleware-paths", "no.such.Thing", "json.loads")
    assert "'json.loads' is no middleware" in told or "'no.such.Thing' cannot be loaded" in told
    assert "interval_s" in refused("--rollout-health-check-interval", "-1")
    assert "admin_networks" in refused("--admin-network", "everywhere")
    assert "trajectories.abort.policy" in refused("--abort", "sometimes")
