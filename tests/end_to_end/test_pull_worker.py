"""`radixway worker` between a chat server and a real engine, each a process of its own."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from radixway.chat.worker import detect_engine
from radixway.chat.worker.prompt_format import PromptTurn
from support.chat_user import login, words
from support.engine_process import engine_process
from support.hand_driven_worker import KEY
from support.running_gateway import RunningGateway, running_gateway


async def test_the_command_answers_chats_with_an_engine_and_drains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    with engine_process() as (engine, _):
        async with running_gateway(chat={"allow_debug_auth": True, "debug_api_keys": [KEY]}) as gateway:
            eve = await login(gateway, "eve")
            command = [sys.executable, "-m", "radixway", "worker", "--backend-url", engine]
            command += ["--server", gateway.url.replace("http", "ws"), "--api-key", KEY, "--model-id", "demo"]
            command += ["--replicas", "2"]
            worker = await asyncio.create_subprocess_exec(*command)
            try:
                async with asyncio.timeout(60):
                    while not await _asked_for(gateway):  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                answer = await eve.asked(
                    "What is a radix tree?", "demo", sampling_parameters={"max_new_tokens": 16}
                )
                heard = await eve.heard(answer)
                assert words(heard) == heard[-1]["message"]["content"] != ""
                worker.send_signal(signal.SIGTERM)
                async with asyncio.timeout(20):
                    assert await worker.wait() == 0
            finally:
                if worker.returncode is None:
                    worker.kill()
                    await worker.wait()


@pytest.mark.slow
async def test_the_engine_counts_a_prompt_as_it_reads_it() -> None:
    turns = [PromptTurn("system", "Be kind"), PromptTurn("user", "What is a radix tree?")]
    messages = [{"role": turn.role, "content": turn.text} for turn in turns]
    with engine_process() as (engine, _):
        async with aiohttp.ClientSession() as session:
            found = await detect_engine(session, engine)
            body = {"model": found.serving.model, "messages": messages, "max_tokens": 1}
            async with session.post(f"{engine}/v1/chat/completions", json=body) as answer:
                read = (await answer.json())["usage"]["prompt_tokens"]
            assert await found.count_prompt_tokens(turns, "engine") == read
            assert await found.count_tokens("What is a radix tree?") < read


async def _asked_for(gateway: RunningGateway) -> bool:
    _, models = await gateway.get("/configs/model_configs")
    return "demo" in [model["name"] for model in models]
