"""How many tokens a user may use."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chat_house import USER, House
from radixway.chat.budgets import Budget, Spending, tokens_told
from radixway.chat.database import Database
from radixway.chat.errors import TooLarge, TooMany
from radixway.chat.jobs import Jobs
from radixway.chat.limits import Limits
from radixway.chat.messages import Question


async def house_with(database: Database, budget: Budget) -> House:
    house = await House(database, Limits(at_once=None, budget=budget)).open()
    ends = house.messages._ends
    ends.told.append(Spending(budget, house.clock))
    house.jobs = Jobs(database, house.clock, ends=ends)
    return house


async def answered(house: House, usage: dict[str, Any] | None, content: str = "It is a trie.") -> None:
    await house.asked()
    job = await house.jobs.claim(["q"], "owner")
    assert job is not None
    await house.jobs.finish(job.attempt_id, content, usage=usage)


async def test_whoever_has_used_up_their_tokens_is_told_when_there_are_some_again(database: Database) -> None:
    house = await house_with(database, Budget(100, 3600))
    await answered(house, {"total_tokens": 60})
    await answered(house, {"prompt_tokens": 50, "completion_tokens": 10})
    with pytest.raises(TooMany, match="tokens_per_user") as refused:
        await house.asked()
    assert refused.value.retry_after_s == pytest.approx(21 * 36)
    house.clock.now += refused.value.retry_after_s
    await answered(house, {"total_tokens": 1})
    with pytest.raises(TooMany):
        await house.asked()


async def test_an_answer_that_is_stopped_before_its_usage_is_told_costs_its_words(database: Database) -> None:
    house = await house_with(database, Budget(100, 3600))
    answer = await house.asked()
    job = await house.jobs.claim(["q"], "owner")
    assert job is not None and await house.jobs.begin(job.attempt_id)
    await house.jobs.cancel(answer.id, "word " * 100)
    with pytest.raises(TooMany):
        await house.asked()


async def test_an_answer_that_never_began_costs_nothing(database: Database) -> None:
    house = await house_with(database, Budget(1, 3600))
    for _ in range(3):
        answer = await house.asked()
        await house.jobs.cancel(answer.id)
    await answered(house, {"total_tokens": 1})


async def test_answers_that_end_at_the_same_time_are_all_counted(database: Database) -> None:
    house = await house_with(database, Budget(1000, 1000))
    for _ in range(5):
        await house.asked()
    jobs = [await house.jobs.claim(["q"], "owner") for _ in range(5)]
    usage = {"total_tokens": 250}
    await asyncio.gather(*(house.jobs.finish(job.attempt_id, "yes", usage=usage) for job in jobs if job))
    with pytest.raises(TooMany) as refused:
        await house.asked()
    assert refused.value.retry_after_s == pytest.approx(251)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"total_tokens": 7, "prompt_tokens": 1}, 7),
        ({"prompt_tokens": 3, "completion_tokens": 4}, 7),
        ({"completion_tokens": 4}, None),
        ({"total_tokens": "7"}, None),
        ({"total_tokens": -7}, None),
        ({"total_tokens": 10**400}, 10**9),
        ({}, None),
        (None, None),
    ],
)
def test_what_workers_count_is_believed_within_reason(
    usage: dict[str, Any] | None, tokens: int | None
) -> None:
    assert tokens_told(usage) == tokens


async def test_another_user_s_answers_cost_one_nothing(database: Database) -> None:
    budget = Budget(100, 3600)
    house = await house_with(database, budget)
    chat = await house.chat()
    async with database.write() as write:
        await budget.spend(write, chat, 1000, house.clock())
        await budget.check(write, "somebody else", house.clock())
        with pytest.raises(TooMany):
            await budget.check(write, USER, house.clock())


async def test_a_chat_s_budget_counts_what_workers_that_fetch_jobs_tell(database: Database) -> None:
    house = await House(database, Limits(at_once=None, tokens=10)).open()
    first = await house.asked()
    job = await house.jobs.claim(["q"], "owner")
    assert job is not None
    await house.jobs.finish(job.attempt_id, "It is a trie.", usage={"completion_tokens": 12})
    said = await house.messages.ask(USER, first.chat_id, first.id, "And then?")
    with pytest.raises(TooLarge, match="10 tokens"):
        await house.messages.request_answer(USER, first.chat_id, Question(said.id, "q", "m", {}))
