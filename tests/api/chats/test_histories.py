"""Threads that are kept, as metrics tell of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.chatting import login
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

PROMETHEUS = {"Accept": "text/plain; version=0.0.4"}


async def test_how_threads_were_come_by_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    chats = {"allow_debug_auth": True}
    async with scripted_worker() as worker, running_gateway(worker.url, chat=chats) as gateway:
        eve = await login(gateway, "eve")
        chat = await eve.chat()
        for _ in range(7):
            await eve.ask(chat, "hello", model="m")
        async with gateway.client.get(f"{gateway.url}/metrics", headers=PROMETHEUS) as scrape:
            lines = (await scrape.text()).splitlines()
    told = {line for line in lines if line.startswith("radixway_chat_histories_total{")}
    assert told == {
        'radixway_chat_histories_total{outcome="short"} 5.0',
        'radixway_chat_histories_total{outcome="miss"} 1.0',
        'radixway_chat_histories_total{outcome="hit"} 1.0',
    }
