"""Real vLLM in pairs: one server prefills and hands its KV to the other by NIXL, until it is killed."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radixway.routing import WorkerState
from support.running_gateway import FAST_HEALTH, RunningGateway, running_gateway
from support.vllm_server import VllmServer, running_servers, write_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ALWAYS = {"health": FAST_HEALTH, "disaggregation": {"min_uncached_tokens": 0, "by_expected_time": False}}
TRANSFER = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[VllmServer, VllmServer]]:
    """A server that prefills and one that decodes."""
    model = write_model(tmp_path_factory.mktemp("model"))
    options = ("--kv-transfer-config", json.dumps(TRANSFER))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        prefill, decode = (
            VllmServer(model, Path(scratch), options=options, worker={"role": role, "disaggregation": "vllm"})
            for scratch, role in ((one, "prefill"), (other, "decode"))
        )
        with running_servers(prefill, decode):
            yield prefill, decode


async def answer(running: RunningGateway, url: str, ids: list[int], **fields: Any) -> tuple[str, Any]:
    body = {"model": "m", "prompt": ids, "max_tokens": 12, "temperature": 0, "ignore_eos": True, **fields}
    async with running.client.post(f"{url}/v1/completions", json=body) as response:
        said = await response.json()
        assert response.status == 200, said
        return said["choices"][0]["text"], response.headers


async def test_a_prompt_is_prefilled_by_one_and_answered_by_the_other_and_alone_when_that_is_killed(pair):
    prefill, decode = pair
    draw = random.Random(1)
    prompts = [[draw.randrange(5, 500) for _ in range(draw.randrange(100, 700))] for _ in range(8)]
    workers = [server.section for server in pair]
    async with running_gateway(prefill.url, decode.url, workers=workers, routing=ALWAYS) as running:
        for number, prompt in enumerate(prompts):
            if number == 5:
                prefill.kill()
            expected, _ = await answer(running, decode.url, prompt, cache_salt="alone")
            before = decode.metric("vllm:prompt_tokens_by_source_total", source="external_kv_transfer")
            found, headers = await answer(running, running.url, prompt)
            handed_over = (
                decode.metric("vllm:prompt_tokens_by_source_total", source="external_kv_transfer") - before
            )
            assert found == expected
            assert headers["x-radixway-worker"] == decode.url.removeprefix("http://")
            if number < 5:
                assert headers["x-radixway-prefill-worker"] == prefill.url.removeprefix("http://")
                assert handed_over >= len(prompt) - 32
            else:
                assert "x-radixway-prefill-worker" not in headers
                assert handed_over == 0
        assert running.gateway.registry.get_worker(prefill.url).state is WorkerState.DOWN
        assert running.in_flight() == 0
