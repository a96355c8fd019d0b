"""Plugins for workers that fetch jobs: they use them by themselves, and are told all they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from chat_user import login, words
from hand_driven_worker import CHAT, hand_driven_worker
from running_gateway import running_gateway

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
