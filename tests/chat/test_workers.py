"""Workers that may fetch jobs, and their keys."""

from __future__ import annotations

import asyncio

from sqlalchemy import text

from chat_house import Clock
from radixway.chat.database import Database
from radixway.chat.workers import Workers


async def test_a_worker_is_known_by_its_key_until_it_is_deleted(database: Database) -> None:
    workers = Workers(database, Clock())
    worker, key = await workers.create("w1", trusted=True)
    assert await workers.find_by_key(key) == worker and worker.trusted
    assert await workers.find_by_key("another") is None
    await workers.delete(worker.id)
    assert await workers.find_by_key(key) is None and await workers.all() == []
    await workers.delete(worker.id)


async def test_no_key_stands_in_the_database(database: Database) -> None:
    workers = Workers(database, Clock())
    _, key = await workers.create("w1")
    await workers.let_in("chosen", ["0000"])
    async with database.read() as read:
        rows = (await read.execute(text("SELECT * FROM workers"))).all()
    assert key not in str(rows) and "0000" not in [str(value) for row in rows for value in row]


async def test_chosen_keys_are_let_in_once_by_processes_that_start_together(database: Database) -> None:
    workers = Workers(database, Clock())
    await asyncio.gather(*(workers.let_in("chosen", ["0000", "1111"]) for _ in range(3)))
    assert len(await workers.all()) == 2
    found = await workers.find_by_key("1111")
    assert found is not None and found.name == "chosen"
