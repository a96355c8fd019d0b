"""Live traffic recorded and simulated: an engine, a gateway, `radixway record`, `radixway simulate`."""

import asyncio
import json
import re
import signal
import sys

import pytest

from radixway.routing.simulator import read_trace
from support.engine_process import engine_process
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker


@pytest.fixture(scope="module")
def engine_url():
    with engine_process() as (url, _):
        yield url


async def started(*args):
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "radixway",
        *map(str, args),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process):
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def recording(*args):
    """`radixway record`, once it follows."""
    process = await started("record", *args)
    async with asyncio.timeout(30):
        assert b"recording" in await process.stderr.readline()
    return process


@pytest.mark.parametrize("policy", ["expected_time", pytest.param("round_robin", marks=pytest.mark.slow)])
async def test_a_recorded_conversation_can_be_simulated(engine_url, policy, tmp_path):
    path = tmp_path / "trace.jsonl"
    async with running_gateway(engine_url, routing={"policy": policy}) as gateway:
        model = sorted(gateway.gateway.registry.known_models())[0]
        process = await recording("--url", gateway.url, "--out", path, "--limit", 3)
        messages, lengths = [], []
        for turn in range(3):
            messages.append({"role": "user", "content": f"Question {turn}: what is Radixway? " * 6})
            body = {"model": model, "messages": messages, "max_tokens": 12, "stream": turn == 1}
            status, answer, _ = await chat(gateway, body)
            assert status == 200
            lengths.append(answer["tokens"])
            messages.append({"role": "assistant", "content": answer["text"]})
        code, _, err = await ended(process)
    assert code == 0
    assert "3 requests recorded" in err
    text = path.read_text()
    assert "Radixway" not in text
    trace = read_trace(path)
    first, second, third = trace.requests
    assert [request.output_tokens for request in trace.requests] == lengths
    assert first.blocks
    assert second.blocks[: len(first.blocks)] == first.blocks
    assert third.blocks[: len(second.blocks)] == second.blocks
    assert sorted({block for request in trace.requests for block in request.blocks}) == list(
        range(len({block for request in trace.requests for block in request.blocks}))
    )
    code, _, err = await ended(
        await started(
            "simulate", path, "--policy", "expected_time,round_robin", "--json", tmp_path / "figures"
        )
    )
    assert code == 0, err
    policies = json.loads((tmp_path / "figures").read_bytes())["policies"]
    assert policies["expected_time"]["hit_rate"] > policies["round_robin"]["hit_rate"] == 0


async def chat(gateway, body):
    """Status, text and tokens of one answer, streamed or whole."""
    async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
        raw = (await response.read()).decode()
    if body["stream"]:
        events = [json.loads(data) for data in re.findall(r"^data: (\{.*)$", raw, re.M)]
        texts = [event["choices"][0]["delta"].get("content") for event in events if event["choices"]]
        return (
            response.status,
            {"text": "".join(filter(None, texts)), "tokens": len([t for t in texts if t])},
            events,
        )
    told = json.loads(raw)
    text = told["choices"][0]["message"]["content"]
    return response.status, {"text": text, "tokens": told["usage"]["completion_tokens"]}, told


async def test_recording_ends_after_as_many_requests_as_it_was_told(tmp_path):
    path = tmp_path / "trace.jsonl"
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        process = await recording("--url", gateway.url, "--out", path, "--limit", 2, "--block-size", 64)
        for tokens in (64, 130, 200):
            await gateway.post("/v1/completions", {"model": "m", "prompt": [1] * tokens})
        code, _, err = await ended(process)
    assert code == 0
    assert "2 requests recorded" in err
    assert [json.loads(line)["hash_ids"] for line in path.read_text().splitlines()] == [[0], [0, 1]]


@pytest.mark.parametrize("signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
async def test_a_signal_ends_the_recording(tmp_path, signum):
    async with running_gateway() as gateway:
        process = await recording("--url", gateway.url, "--out", tmp_path / "trace")
        process.send_signal(signum)
        code, _, err = await ended(process)
    assert code == 0
    assert "0 requests recorded" in err


async def test_a_gateway_that_stops_ends_the_recording_in_one_sentence(tmp_path):
    async with running_gateway() as gateway:
        process = await recording("--url", gateway.url, "--out", tmp_path / "trace")
        gateway.gateway.stopping()
        code, _, err = await ended(process)
    assert code == 2
    assert "ended its stream after 0 requests" in err
    assert not (tmp_path / "trace").exists()


async def test_what_cannot_be_recorded_ends_in_one_sentence_and_exit_code_2(tmp_path):
    there = tmp_path / "there"
    there.write_text("precious")
    async with running_gateway(gateway={"admin_key": "secret"}) as gateway:
        for url, out, why in (
            (gateway.url, tmp_path / "new", "admin key"),
            (gateway.url, there, f"cannot write {there}: File exists"),
            ("http://127.0.0.1:9", tmp_path / "new", "no gateway answers at http://127.0.0.1:9"),
        ):
            code, _, err = await ended(await started("record", "--url", url, "--out", out))
            assert code == 2
            assert why in err
            assert len(err.strip().splitlines()) == 1
    assert there.read_text() == "precious"
    assert not (tmp_path / "new").exists()
