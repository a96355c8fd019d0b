"""How long an answer will wait."""

from __future__ import annotations

import pytest

from radixway.chat.database import ChatDatabase
from radixway.chat.queue_positions import QueuePace
from support.chat_house import House


async def test_it_is_told_from_the_pace_of_those_before_and_stays_right(database: ChatDatabase) -> None:
    house = await House(database).open()
    pace = QueuePace(database, house.jobs, house.clock)
    answers = [await house.asked() for _ in range(6)]
    place = await pace.estimate_wait(answers[5])
    assert place is not None and (place.position, place.size, place.eta_s) == (5, 6, None)
    for _ in range(3):  # one in ten seconds
        await house.jobs.claim_job(["q"], "me")
        house.clock.now += 10
    last, next_one = await pace.estimate_wait(answers[5]), await pace.estimate_wait(answers[3])
    assert last is not None and (last.position, last.size) == (2, 3)
    assert last.eta_s == pytest.approx(30)
    assert next_one is not None and next_one.eta_s == pytest.approx(10)
    assert await pace.estimate_wait(await house.now(answers[0])) is None
    await house.jobs.cancel_job(answers[4].id)
    sooner = await pace.estimate_wait(answers[5])
    assert sooner is not None and (sooner.position, sooner.eta_s) == (1, pytest.approx(20))
