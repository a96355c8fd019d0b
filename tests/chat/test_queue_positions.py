"""Where answers stand in their queues."""

from __future__ import annotations

import asyncio

from radixway.chat.database import ChatDatabase
from radixway.chat.job_queue import AnswerJobQueue, JobPosition
from radixway.chat.queue_positions import QueuePositions
from support.chat_house import House


class CountingJobs(AnswerJobQueue):
    """Counts how often it is asked for an order."""

    asked = 0

    async def list_waiting(self, queue: str) -> list[str]:
        self.asked += 1
        return await super().list_waiting(queue)


async def test_many_listeners_cost_one_question_a_second(database: ChatDatabase) -> None:
    house = await House(database).open()
    jobs = CountingJobs(database, house.clock)
    standings = QueuePositions(jobs, house.clock, fresh_s=1.0)
    waiting = [await house.asked() for _ in range(3)]

    async def told() -> list[JobPosition | None]:
        return await asyncio.gather(
            *(standings.find_position(each.id, "q", each.created_at) for each in waiting for _ in range(20))
        )

    assert await told() == [JobPosition(place, 3) for place in range(3) for _ in range(20)]
    assert await told() == await told() and jobs.asked == 1
    await house.jobs.claim_job(["q"], "somebody")
    house.clock.now += 1
    assert await told() == [None] * 20 + [JobPosition(0, 2)] * 20 + [JobPosition(1, 2)] * 20
    assert jobs.asked == 2


async def test_whoever_comes_after_the_last_look_is_seen_at_once(database: ChatDatabase) -> None:
    house = await House(database).open()
    standings = QueuePositions(house.jobs, house.clock, fresh_s=1.0)
    first = await house.asked(priority=0)
    assert await standings.find_position(first.id, "q", first.created_at) == JobPosition(0, 1)
    house.clock.now += 0.1
    sooner = await house.asked(priority=1)
    assert await standings.find_position(sooner.id, "q", sooner.created_at) == JobPosition(0, 2)
    assert await standings.find_position(first.id, "q", first.created_at) == JobPosition(1, 2)
