"""Who is connected to fetch jobs, as every process sees it."""

from __future__ import annotations

import asyncio

from chat_house import House
from radixway.chat.answers import Answers
from radixway.chat.database import Database
from radixway.chat.pull import Session, Sessions, WorkerInfo
from radixway.chat.pull.frames import ModelShape, WorkerConfig
from radixway.chat.tokens import MemoryLog
from radixway.chat.wake import LocalWake

INFO = WorkerInfo(WorkerConfig(ModelShape("m", 1024, 2048), 2), {"gpus": []})


def process(house: House) -> Sessions:
    answers = Answers(house.messages, house.jobs, MemoryLog(), LocalWake(), house.clock)
    return Sessions(house.database, house.clock, answers, lease_s=30)


async def test_a_worker_of_one_process_is_known_to_all_until_it_leaves(database: Database) -> None:
    house = House(database)
    one, other = process(house), process(house)
    session = Session("w", INFO, house.clock())
    await one.open(session)
    async with other.running():
        assert list(other.models) == ["m-2048-1024-f"] and other.busy == {"m-2048-1024-f": 1}
        (shape,) = await other.shapes()
        assert shape["worker_id"] == "w" and shape["worker_info"]["config"]["max_parallel_requests"] == 2
        await one.close(session)
        assert await other.shapes() == []


async def test_workers_of_a_process_that_died_are_forgotten(database: Database) -> None:
    house = House(database)
    dead, other = process(house), process(house)
    await dead.open(Session("w", INFO, house.clock()))
    house.clock.now += 31
    assert await other.shapes() == []
    async with other.running():
        assert not other.models and not other.busy


async def test_workers_that_come_at_the_same_time_are_all_noted(database: Database) -> None:
    house = House(database)
    sessions = process(house)
    await asyncio.gather(*(sessions.open(Session(f"w{n}", INFO, house.clock())) for n in range(8)))
    assert len(await sessions.shapes()) == 8 and sessions.busy == {"m-2048-1024-f": 8}
