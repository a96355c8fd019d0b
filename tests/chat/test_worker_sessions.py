"""Who is connected to fetch jobs, as every process sees it."""

from __future__ import annotations

import asyncio

from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.database import ChatDatabase
from radixway.chat.notifications import TopicNotifier
from radixway.chat.pull import WorkerInfo, WorkerSession, WorkerSessions
from radixway.chat.pull.frames import ModelShape, WorkerConfig
from radixway.chat.token_log import TokenLog
from support.chat_house import House

INFO = WorkerInfo(WorkerConfig(ModelShape("m", 1024, 2048), 2), {"gpus": []})


def process(house: House) -> WorkerSessions:
    answers = ActiveAnswers(house.messages, house.jobs, TokenLog(), TopicNotifier(), house.clock)
    return WorkerSessions(house.database, house.clock, answers, lease_s=30)


async def test_a_worker_of_one_process_is_known_to_all_until_it_leaves(database: ChatDatabase) -> None:
    house = House(database)
    one, other = process(house), process(house)
    session = WorkerSession("w", INFO, house.clock())
    await one.open_session(session)
    async with other.running():
        assert list(other.models) == ["m-2048-1024-f"] and other.busy == {"m-2048-1024-f": 1}
        (shape,) = await other.list_shapes()
        assert shape["worker_id"] == "w" and shape["worker_info"]["config"]["max_parallel_requests"] == 2
        await one.close_session(session)
        assert await other.list_shapes() == []


async def test_workers_of_a_process_that_died_are_forgotten(database: ChatDatabase) -> None:
    house = House(database)
    dead, other = process(house), process(house)
    await dead.open_session(WorkerSession("w", INFO, house.clock()))
    house.clock.now += 31
    assert await other.list_shapes() == []
    async with other.running():
        assert not other.models and not other.busy


async def test_workers_that_come_at_the_same_time_are_all_noted(database: ChatDatabase) -> None:
    house = House(database)
    sessions = process(house)
    await asyncio.gather(
        *(sessions.open_session(WorkerSession(f"w{n}", INFO, house.clock())) for n in range(8))
    )
    assert len(await sessions.list_shapes()) == 8 and sessions.busy == {"m-2048-1024-f": 8}
