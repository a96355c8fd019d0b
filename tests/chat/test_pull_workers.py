"""Workers that may fetch jobs, and their keys."""

from __future__ import annotations

import asyncio

from sqlalchemy import text

from radixway.chat.database import ChatDatabase
from radixway.chat.pull.worker_sessions import PullWorkerStore
from support.chat_house import Clock


async def test_a_worker_is_known_by_its_key_until_it_is_deleted(database: ChatDatabase) -> None:
    workers = PullWorkerStore(database, Clock())
    worker, key = await workers.create_worker("w1", trusted=True)
    assert await workers.find_by_key(key) == worker and worker.trusted
    assert await workers.find_by_key("another") is None
    await workers.delete_worker(worker.id)
    assert await workers.find_by_key(key) is None and await workers.list_workers() == []
    await workers.delete_worker(worker.id)


async def test_no_key_stands_in_the_database(database: ChatDatabase) -> None:
    workers = PullWorkerStore(database, Clock())
    _, key = await workers.create_worker("w1")
    await workers.admit_workers("chosen", ["0000"])
    async with database.read_connection() as read:
        rows = (await read.execute(text("SELECT * FROM workers"))).all()
    assert key not in str(rows) and "0000" not in [str(value) for row in rows for value in row]


async def test_chosen_keys_are_let_in_once_by_processes_that_start_together(database: ChatDatabase) -> None:
    workers = PullWorkerStore(database, Clock())
    await asyncio.gather(*(workers.admit_workers("chosen", ["0000", "1111"]) for _ in range(3)))
    assert len(await workers.list_workers()) == 2
    found = await workers.find_by_key("1111")
    assert found is not None and found.name == "chosen"
