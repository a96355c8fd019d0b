"""New weights for two real engines through the gateway, and what becomes of one that missed them."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
import safetensors.torch
import torch

from radixway.routing import WorkerState
from support.engine_process import engine_process
from support.running_gateway import running_gateway

GUIDE = Path(__file__).parents[2] / "src" / "radixway" / "bundled" / "guide"
ASK = {"text": "The gateway", "sampling_params": {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}}
SAFETENSORS = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def trained() -> bytes:
    """The bundled model's weights after some training, as a safetensors file."""
    generator = torch.Generator().manual_seed(7)
    tensors = {}
    for file in GUIDE.glob("*.safetensors"):
        for name, tensor in safetensors.torch.load_file(file).items():
            noise = torch.randn(tensor.shape, generator=generator) * 0.05
            tensors[name] = (tensor.float() + noise).to(tensor.dtype).contiguous()
    return safetensors.torch.save(tensors)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


async def ask(gateway, url):
    """What the worker at `url` answers itself, and with which version."""
    async with gateway.client.post(url + "/generate", json=ASK) as response:
        answer = await response.json()
        return answer["output_ids"], answer["meta_info"]["weight_version"]


async def answers(gateway, count=4):
    """The versions and the workers of some answers through the gateway."""
    replies = [await gateway.post("/generate", ASK) for _ in range(count)]
    assert all(status == 200 for status, _, _ in replies)
    versions = {reply["meta_info"]["weight_version"] for _, reply, _ in replies}
    return versions, {headers["x-radixway-worker"] for _, _, headers in replies}


@pytest.mark.slow
async def test_an_engine_that_died_and_came_back_with_old_weights_answers_nothing_until_it_is_updated(
    trained,
):
    with ExitStack() as running:
        first, _ = running.enter_context(engine_process())
        second, process = running.enter_context(engine_process())
        limits = {"max_body_bytes": 2 * len(trained)}
        policy = {"policy": "round_robin"}
        async with running_gateway(first, second, gateway=limits, routing=policy) as gateway:
            untrained, version = await ask(gateway, first)
            assert version == "default"

            push = "/update_weights_from_tensor?weight_version=7"
            status, told, _ = await gateway.post(push, trained, headers=SAFETENSORS)
            assert (status, told["message"]) == (200, "2 of 2 workers did it")
            made, version = await ask(gateway, first)
            assert (version, made != untrained) == ("7", True)
            assert await ask(gateway, second) == (made, "7")
            assert await answers(gateway) == ({"7"}, {first[7:], second[7:]})

            process.kill()
            process.wait()
            await gateway.until(second, WorkerState.DOWN)
            again = await asyncio.to_thread(running.enter_context, engine_process(port=port_of(second)))
            assert again[0] == second
            worker = await gateway.until(second, WorkerState.STALE)
            assert (worker.weight_version, await ask(gateway, second)) == ("default", (untrained, "default"))
            assert await answers(gateway) == ({"7"}, {first[7:]})

            status, _, _ = await gateway.post(push, trained, headers=SAFETENSORS)
            assert (status, worker.state) == (200, WorkerState.READY)
            assert await ask(gateway, second) == (made, "7")
            assert await answers(gateway) == ({"7"}, {first[7:], second[7:]})


async def requests_at(gateway, engine):
    """How many of them an engine holds."""
    async with gateway.client.get(f"{engine}/v1/loads") as reply:
        (load,) = (await reply.json())["loads"]
    return load["num_running_reqs"] + load["num_waiting_reqs"]


async def test_a_pause_holds_both_engines_and_an_abort_ends_what_one_of_them_runs(engines):
    async with running_gateway(*engines, routing={"policy": "round_robin"}) as gateway:
        assert (await gateway.post("/pause_generation", {"mode": "retract"}))[0] == 200
        held = [asyncio.create_task(gateway.post("/generate", ASK | {"rid": f"r{n}"})) for n in range(2)]
        for url in engines:
            while not await requests_at(gateway, url):
                continue
        for number, task in enumerate(held):
            _, told, _ = await gateway.post("/abort_request", {"rid": f"r{number}"})
            assert [said["answer"]["aborted"] for said in told["workers"].values()] == [1]
            status, reply, _ = await task
            assert (status, reply["meta_info"]["finish_reason"]["type"]) == (200, "abort")
        assert (await gateway.post("/continue_generation", {}))[0] == 200
        assert (await gateway.post("/generate", ASK))[0] == 200
        assert gateway.in_flight() == 0
