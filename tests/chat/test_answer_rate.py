"""How often a user may ask."""

from __future__ import annotations

import asyncio

import pytest

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatLimitExceededError
from radixway.chat.limits import AnswerRate, ChatLimits
from support.chat_house import USER, Clock, House


async def spend(database: ChatDatabase, rate: AnswerRate, now: float) -> None:
    async with database.write_transaction() as write:
        await rate.spend_answer(write, USER, now)


async def test_a_share_may_be_spent_at_once_and_grows_back_bit_by_bit(database: ChatDatabase) -> None:
    await House(database).open()
    rate, clock = AnswerRate(3, 60), Clock()
    for _ in range(3):
        await spend(database, rate, clock())
    with pytest.raises(ChatLimitExceededError) as refused:
        await spend(database, rate, clock())
    assert refused.value.retry_after_s == pytest.approx(20)
    clock.now += 20
    await spend(database, rate, clock())
    with pytest.raises(ChatLimitExceededError):
        await spend(database, rate, clock())
    clock.now += 3600
    for _ in range(3):
        await spend(database, rate, clock())
    with pytest.raises(ChatLimitExceededError):
        await spend(database, rate, clock())


async def test_what_is_asked_at_the_same_time_is_counted_too(database: ChatDatabase) -> None:
    await House(database).open()
    rate, now = AnswerRate(5, 60), Clock()()
    ends = await asyncio.gather(*(spend(database, rate, now) for _ in range(20)), return_exceptions=True)
    assert sum(end is None for end in ends) == 5
    assert all(isinstance(end, ChatLimitExceededError) for end in ends if end is not None)


async def test_an_answer_that_is_refused_leaves_nothing_behind(database: ChatDatabase) -> None:
    house = await House(database, ChatLimits(at_once=None, rate=AnswerRate(1, 60))).open()
    first = await house.asked()
    with pytest.raises(ChatLimitExceededError):
        await house.asked()
    assert await house.jobs.list_waiting("q") == [first.id]
