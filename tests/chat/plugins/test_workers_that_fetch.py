"""Plugins for workers that fetch jobs: they use them by themselves, and are told all they need."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import aiohttp
import pytest

from radixway.chat.plugins import PluginAnswers, PluginRegistry
from radixway.chat.worker import ChatWorker, ServedModel, detect_engine
from radixway.core.config.chat import ChatPluginsConfig
from support.chat_user import login, words
from support.hand_driven_worker import CHAT, KEY, hand_driven_worker
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

SERVERS = {"mcp_servers": {"shop": {"command": "/nowhere/at/all"}}}


async def test_a_worker_is_told_the_manifest_and_its_steps_and_record_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `plugin_config` the published worker uses a plugin and throws away what it finds."""
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(chat=CHAT | SERVERS) as gateway:
        eve = await login(gateway, "eve")
        url = f"{gateway.url}/plugins/gale_pleaser/ai-plugin.json"
        forged = {"name_for_human": "forged", "api": {"url": "http://evil.example"}}
        entries = [
            {"url": "mcp:shop", "enabled": False},
            {"url": url, "plugin_config": forged, "trusted": False},
            {"url": "https://others.example/ai-plugin.json", "trusted": True},
        ]
        answer = await eve.asked("please me", plugins=entries)
        async with hand_driven_worker(gateway) as worker:
            work = await worker.frame()
            ours, others = work["parameters"]["plugins"]
            assert ours["url"] == url and ours["enabled"] and ours["trusted"] is True
            assert ours["plugin_config"]["name_for_human"] == "Super Aligned GAGLETO"
            assert ours["plugin_config"]["api"]["url"] == f"{gateway.url}/plugins/gale_pleaser/openapi.json"
            assert others["trusted"] is False and others["plugin_config"] is None
            assert work["parameters"]["plugin_max_depth"] == 4
            step = {"current_plugin_thought": "x", "current_plugin_action_taken": "get_instructions"}
            await worker.send({"request_id": work["id"], "response_type": "plugin_intermediate", **step})
            await worker.say(work["id"], "You are great")
            used = {"name": "Super Aligned GAGLETO", "url": url, "trusted": True, "execution_details": {}}
            whole = {"text": "You are great", "finish_reason": "eos_token", "used_plugin": used}
            await worker.send({"request_id": work["id"], "response_type": "generated_text", **whole})
            heard = await eve.heard(answer)
        assert [event["event_type"] for event in heard] == ["plugin_intermediate", "token", "message"]
        assert words(heard) == "You are great" and heard[-1]["message"]["used_plugin"] == used


SAID = [
    'Thought: I calculate\nAction: calculate\nAction Input: {"expression": "6 * 7"}\nObservation: 41?',
    "Thought: I now know the final answer\nOpen Assistant: It is 42.End!",
]


async def test_our_worker_uses_plugins_over_an_engine_that_knows_nothing_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    said = iter(SAID)

    async def tgi(exchange: Exchange) -> None:
        if exchange.path == "/info":
            await exchange.reply(200, b'{"model_id": "m", "max_total_tokens": 2048}')
            return
        text = next(said)
        await exchange.begin_stream()
        for at in range(0, len(text), 4):
            token = {"token": {"id": 1, "text": text[at : at + 4], "logprob": -0.1}}
            await exchange.chunk(b"data:" + json.dumps(token).encode() + b"\n\n")
        end = {"token": {"id": 2, "text": "</s>", "special": True}, "generated_text": text}
        end |= {"details": {"finish_reason": "eos_token"}}
        await exchange.chunk(b"data:" + json.dumps(end).encode() + b"\n\n")
        await exchange.end_stream()

    section = ChatPluginsConfig()
    plugins = PluginRegistry(section, {}, time.time)
    async with (
        scripted_worker(tgi) as engine,
        running_gateway(chat=CHAT) as gateway,
        aiohttp.ClientSession() as session,
        plugins.running(),
    ):
        eve = await login(gateway, "eve")
        found, chains = await detect_engine(session, engine.url), PluginAnswers(plugins, section)
        worker = ChatWorker(session, gateway.url, KEY, found, ServedModel("m", 1024, 2048), plugins=chains)
        running = asyncio.create_task(worker.run_until_drained())
        try:
            entry = {"url": f"{gateway.url}/plugins/calculator/ai-plugin.json"}
            heard = await eve.heard(await eve.asked("What is 6 * 7?", plugins=[entry]))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert heard[0]["event_type"] == "plugin_intermediate"
    assert heard[0]["current_plugin_action_response"] == "42"
    message = heard[-1]["message"]
    assert words(heard) == message["content"] == "It is 42."
    assert message["used_plugin"]["execution_details"]["achieved_depth"] == 1
    first, second = (each.json() for each in engine.requests if each.path == "/generate_stream")
    assert "\nObservation:" in first["parameters"]["stop"] and "'calculate'" in first["inputs"]
    assert second["inputs"].endswith("<|prompter|>Observation: 42</s><|assistant|>")
