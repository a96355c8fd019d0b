"""`from radixway import Radixway`: calls in this process, awaited or not, against real workers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from radixway import Radixway, RadixwayError
from radixway.core.config import ConfigError
from radixway.gateway import engine_supervisor
from radixway.gateway.embedded.runtime import EngineFailedError
from support.echoing_worker import PATIENCE_S, answering, worker_in_a_thread
from support.scripted_worker import scripted_worker


def at(worker, **sections):
    return Radixway(workers=[{"url": worker.url}], **sections)


async def test_calls_are_answered_and_explained():
    async with scripted_worker(answering) as worker, at(worker) as radixway:
        answer = await radixway.chat("hello", model="m", temperature=0)
        assert answer.text == "hello" and answer.worker == worker.url.removeprefix("http://")
        assert worker.requests[-1].json() == {
            "model": "m",
            "messages": [{"role": "user", "content": "hello"}],
            "temperature": 0,
        }
        steps = [step["step"] for step in (await radixway.explain(answer.request_id))["steps"]]
        assert steps[0] == "receive" and "select" in steps
        assert (await radixway.complete("a text")).text == "a text"
        assert (await radixway.generate(text="more")).text == "more"
        models = (await radixway.call("GET", "/v1/models")).json()["data"]
        assert [model["id"] for model in models] == ["m"]


async def test_streams_are_iterated_event_by_event():
    async with scripted_worker(answering) as worker, at(worker) as radixway:
        async with radixway.stream_chat("hello") as stream:
            assert [each["choices"][0]["delta"]["content"] async for each in stream] == list("hello")
            assert stream.request_id and stream.worker
        async with radixway.stream_complete("abc") as stream:
            assert [text async for text in stream.texts()] == list("abc")
        async with radixway.stream_generate(text="xyz") as stream:
            assert [text async for text in stream.texts()] == list("xyz")


async def test_what_is_refused_is_raised_with_its_status_and_field():
    async with scripted_worker(answering) as worker, at(worker) as radixway:
        with pytest.raises(RadixwayError, match="max_tokens") as refused:
            await radixway.chat("hello", max_tokens=-1)
        assert (refused.value.status, refused.value.field) == (400, "max_tokens")
        assert (await radixway.explain(refused.value.request_id))["steps"][-1]["status"] == 400
        with pytest.raises(RadixwayError) as unknown:
            async with radixway.stream_chat("hello", model="nobody's"):
                pass
        assert (unknown.value.status, unknown.value.code) == (404, "model_not_found")
        with pytest.raises(RadixwayError) as missing:
            await radixway.explain("never/asked")
        assert (missing.value.status, missing.value.field) == (404, "request_id")
        assert len(worker.requests) == 0


async def test_a_gateway_whose_workers_are_away_says_when_to_try_again():
    async with scripted_worker(answering) as worker:
        pass
    async with at(worker, workers_within_s=0.1) as radixway:
        with pytest.raises(RadixwayError) as nobody:
            await radixway.chat("hello")
    assert (nobody.value.status, nobody.value.code, nobody.value.retry_after_s) == (503, "no_workers", 1)


async def test_a_stream_that_breaks_off_is_raised_after_what_came():
    async with scripted_worker(answering) as worker, at(worker) as radixway:
        heard = []
        with pytest.raises(RadixwayError) as broken:
            async with radixway.stream_chat("break") as stream:
                async for text in stream.texts():
                    heard.append(text)
    assert heard == list("break")
    assert (broken.value.status, broken.value.code) == (502, "stream_broken")


async def test_whoever_leaves_a_stream_frees_its_worker():
    async with scripted_worker(answering) as worker, at(worker) as radixway, asyncio.timeout(PATIENCE_S):
        async with radixway.stream_chat("hold") as stream:
            assert await anext(stream)
        await worker.hung_up.wait()
        steps = (await radixway.explain(stream.request_id))["steps"]
        assert "client_left" in [step["step"] for step in steps]


async def test_a_call_that_is_cancelled_frees_its_worker():
    asked = asyncio.Event()

    async def noted(exchange) -> None:
        asked.set()
        await answering(exchange)

    async with scripted_worker(noted) as worker, at(worker) as radixway, asyncio.timeout(PATIENCE_S):
        calling = asyncio.create_task(radixway.chat("hold", headers={"x-request-id": "mine"}))
        await asked.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await worker.hung_up.wait()
        assert (await radixway.explain("mine"))["steps"][-2]["step"] == "client_left"


async def test_it_may_be_closed_by_another_task_than_opened_it():
    async with scripted_worker(answering) as worker:
        radixway = at(worker)
        opened = await asyncio.create_task(radixway.open())
        assert (await opened.chat("hello")).text == "hello"
        await asyncio.create_task(radixway.close())


async def test_tenants_are_known_by_the_key_that_it_was_opened_with():
    tenants = {"acme": {"keys": [{"key": "acme-key"}], "rates": {"requests_per_minute": 1}}}
    async with scripted_worker(answering) as worker:
        async with at(worker, tenants=tenants) as radixway:
            with pytest.raises(RadixwayError) as refused:
                await radixway.chat("hello")
            assert refused.value.status == 401
        async with at(worker, tenants=tenants, key="acme-key") as radixway:
            await radixway.chat("hello")
            with pytest.raises(RadixwayError) as over:
                await radixway.chat("hello")
            assert (over.value.status, over.value.code) == (429, "requests_per_minute")
            assert 0 < over.value.retry_after_s <= 61


async def test_without_awaiting_it_works_even_where_a_loop_runs():
    with worker_in_a_thread() as worker, at(worker) as radixway:
        answer = radixway.chat("hello", model="m")
        assert answer.text == "hello"
        assert radixway.explain(answer.request_id)["request_id"] == answer.request_id
        with radixway.stream_chat("hello") as stream:
            assert list(stream.texts()) == list("hello")
        with radixway.stream_generate(text="ab") as stream:
            assert [each["text"] for each in stream] == ["a", "ab"]
        with pytest.raises(RadixwayError) as refused:
            radixway.chat("hello", max_tokens=-1)
        assert refused.value.field == "max_tokens"


def test_a_stream_left_by_code_that_does_not_await_frees_its_worker():
    with worker_in_a_thread() as worker, at(worker) as radixway:
        with radixway.stream_chat("hold") as stream:
            assert next(stream)
        steps = radixway.explain(stream.request_id)["steps"]
        assert "client_left" in [step["step"] for step in steps]


def test_several_threads_may_call_at_once():
    with worker_in_a_thread() as worker, at(worker) as radixway:
        said = {}
        threads = [
            threading.Thread(target=lambda n=n: said.update({n: radixway.chat(str(n)).text}))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said == {n: str(n) for n in range(8)}


def test_mistakes_of_the_configuration_are_told_before_anything_starts(tmp_path):
    file = tmp_path / "radixway.yaml"
    file.write_text("gateway:\n  prot: 1\n")
    with pytest.raises(ConfigError, match=r"radixway.yaml:2: gateway.prot: there is no such key"):
        Radixway(file)
    with pytest.raises(ConfigError, match="no such"):
        Radixway(gatewy={})
    with pytest.raises(TypeError):
        Radixway(Radixway(workers=[]).config, workers=[])


@pytest.mark.parametrize(
    ("sections", "starts"),
    [
        ({}, True),
        ({"workers": [{"url": "http://gpu1:8000"}]}, False),
        ({"discovery": {"dns": [{"name": "vllm-svc", "port": 8000}]}}, False),
        ({"discovery": {"dns": [{"name": "vllm-svc", "port": 8000}]}, "with_engine": True}, True),
    ],
)
def test_an_engine_is_started_where_nobody_else_would_answer(sections, starts):
    assert Radixway(**sections).starts_engine is starts


async def test_it_is_opened_once():
    radixway = Radixway(with_engine=False)
    async with radixway:
        with pytest.raises(RuntimeError, match="opened once"):
            await radixway.open()


def test_without_awaiting_it_is_opened_once_too():
    with Radixway(with_engine=False) as radixway:
        opener = Radixway(with_engine=False)
        with opener as other:
            with pytest.raises(RuntimeError, match="opened once"):
                opener.open_sync()
            assert other.call("GET", "/health").status == radixway.call("GET", "/health").status == 200


def test_its_name_is_imported_without_the_gateway_and_the_gateway_without_what_it_does_not_use():
    heavy = {"fastapi", "aiohttp", "pydantic", "numpy", "torch", "transformers", "ray", "redis", "zmq"}
    light = heavy - {"fastapi", "aiohttp", "pydantic"}
    program = f"""
import sys
from radixway import Radixway, RadixwayError
print(sorted({heavy} & set(sys.modules)))
with Radixway(with_engine=False):
    print(sorted({light} & set(sys.modules)))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split("\n")[:2] == ["[]", "[]"]


@pytest.fixture
def interruptible():
    """As a process is that a shell has not started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_who_interrupts_the_opening_leaves_nothing_behind(tmp_path, monkeypatch, caplog, interruptible):
    lives = tmp_path / "open for as long as the engine lives"
    os.mkfifo(lives)
    script = tmp_path / "engine"
    script.write_text(f"#!/bin/sh\nexec 3> '{lives}'\nexec sleep 1000\n")
    script.chmod(0o755)
    monkeypatch.setattr(engine_supervisor.sys, "executable", str(script))

    def interrupt():
        with lives.open() as line:
            os.kill(os.getpid(), signal.SIGINT)
            line.read()

    interrupting = threading.Thread(target=interrupt, daemon=True)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        Radixway().open_sync()
    interrupting.join(PATIENCE_S)
    assert not interrupting.is_alive()
    assert "radixway" not in {thread.name for thread in threading.enumerate()}
    assert "asyncio" not in {record.name for record in caplog.records}


async def test_an_engine_that_cannot_start_is_raised(tmp_path, monkeypatch):
    script = tmp_path / "engine"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(engine_supervisor.sys, "executable", str(script))
    with pytest.raises(EngineFailedError, match="ended with 3"):
        async with Radixway():
            pass


async def test_the_embedded_engine_answers_in_a_process_of_its_own():
    own = {"served_model_name": "of-my-own", "threads": 1, "dtype": "float32"}
    async with Radixway(engine=own) as radixway:
        answer = await radixway.chat("What is Radixway?", model="of-my-own", max_tokens=8, temperature=0)
        async with radixway.stream_chat("What is Radixway?", max_tokens=8, temperature=0) as stream:
            assert "".join([text async for text in stream.texts()]) == answer.text != ""
        worker = (await radixway.call("GET", "/list_workers")).json()["workers"][0]
        health = (await radixway.call("GET", "/health")).json()
        assert health["kv_events"] == {worker["url"].removeprefix("http://"): "following"}
