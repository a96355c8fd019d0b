"""A database that another process holds, or that has no room: askers are told so, and answers wait."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from radixway.chat import database
from radixway.chat.database import ChatDatabase
from radixway.chat.database_outages import is_outage
from support.chat_user import login
from support.hand_driven_worker import CHAT, hand_driven_worker
from support.running_gateway import running_gateway


async def test_an_answer_outlasts_a_database_that_another_process_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    monkeypatch.setattr(database, "_BUSY_MS", 100)
    async with running_gateway(chat=CHAT) as gateway:
        eve = await login(gateway, "eve")
        answer = await eve.asked()
        async with hand_driven_worker(gateway) as worker:
            request = await worker.work()
            other = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            await worker.finish(request, "Hi")
            async with asyncio.timeout(20):
                while "trying again" not in caplog.text:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await eve.call("POST", "/chats", {}))[0] == 503
            other.execute("ROLLBACK")
            other.close()
            message = (await eve.heard(answer))[-1]["message"]
    assert (message["state"], message["content"]) == ("complete", "Hi")


async def test_a_full_disk_is_no_defect(tmp_path: Path) -> None:
    chats = ChatDatabase(f"sqlite:///{tmp_path / 'chats.db'}")
    try:
        with pytest.raises(Exception, match="full") as raised:
            async with chats.write_transaction() as write:
                await write.exec_driver_sql("CREATE TABLE t (a)")
                await write.exec_driver_sql("PRAGMA max_page_count = 3")
                await write.exec_driver_sql("INSERT INTO t VALUES (zeroblob(1000000))")
    finally:
        await chats.aclose()
    assert is_outage(raised.value)
