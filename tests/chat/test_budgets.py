"""How many tokens a user may use."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatLimitExceededError, ChatTooLargeError
from radixway.chat.job_queue import AnswerJobQueue
from radixway.chat.limits import BudgetAccounting, ChatLimits, TokenBudget, reported_tokens
from radixway.chat.messages import AnswerRequest
from support.chat_house import USER, House


async def house_with(database: ChatDatabase, budget: TokenBudget) -> House:
    house = await House(database, ChatLimits(at_once=None, budget=budget)).open()
    ends = house.messages._ends
    ends.hooks.append(BudgetAccounting(budget, house.clock))
    house.jobs = AnswerJobQueue(database, house.clock, ends=ends)
    return house


async def answered(house: House, usage: dict[str, Any] | None, content: str = "It is a trie.") -> None:
    await house.asked()
    job = await house.jobs.claim_job(["q"], "owner")
    assert job is not None
    await house.jobs.finish_job(job.attempt_id, content, usage=usage)


async def test_whoever_has_used_up_their_tokens_is_told_when_there_are_some_again(
    database: ChatDatabase,
) -> None:
    house = await house_with(database, TokenBudget(100, 3600))
    await answered(house, {"total_tokens": 60})
    await answered(house, {"prompt_tokens": 50, "completion_tokens": 10})
    with pytest.raises(ChatLimitExceededError, match="tokens_per_user") as refused:
        await house.asked()
    assert refused.value.retry_after_s == pytest.approx(21 * 36)
    house.clock.now += refused.value.retry_after_s
    await answered(house, {"total_tokens": 1})
    with pytest.raises(ChatLimitExceededError):
        await house.asked()


async def test_an_answer_that_is_stopped_before_its_usage_is_told_costs_its_words(
    database: ChatDatabase,
) -> None:
    house = await house_with(database, TokenBudget(100, 3600))
    answer = await house.asked()
    job = await house.jobs.claim_job(["q"], "owner")
    assert job is not None and await house.jobs.mark_begun(job.attempt_id)
    await house.jobs.cancel_job(answer.id, "word " * 100)
    with pytest.raises(ChatLimitExceededError):
        await house.asked()


async def test_an_answer_that_never_began_costs_nothing(database: ChatDatabase) -> None:
    house = await house_with(database, TokenBudget(1, 3600))
    for _ in range(3):
        answer = await house.asked()
        await house.jobs.cancel_job(answer.id)
    await answered(house, {"total_tokens": 1})


async def test_answers_that_end_at_the_same_time_are_all_counted(database: ChatDatabase) -> None:
    house = await house_with(database, TokenBudget(1000, 1000))
    for _ in range(5):
        await house.asked()
    jobs = [await house.jobs.claim_job(["q"], "owner") for _ in range(5)]
    usage = {"total_tokens": 250}
    await asyncio.gather(*(house.jobs.finish_job(job.attempt_id, "yes", usage=usage) for job in jobs if job))
    with pytest.raises(ChatLimitExceededError) as refused:
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
    assert reported_tokens(usage) == tokens


async def test_another_user_s_answers_cost_one_nothing(database: ChatDatabase) -> None:
    budget = TokenBudget(100, 3600)
    house = await house_with(database, budget)
    chat = await house.chat()
    async with database.write_transaction() as write:
        await budget.spend_tokens(write, chat, 1000, house.clock())
        await budget.check_budget(write, "somebody else", house.clock())
        with pytest.raises(ChatLimitExceededError):
            await budget.check_budget(write, USER, house.clock())


async def test_a_chat_s_budget_counts_what_workers_that_fetch_jobs_tell(database: ChatDatabase) -> None:
    house = await House(database, ChatLimits(at_once=None, tokens=10)).open()
    first = await house.asked()
    job = await house.jobs.claim_job(["q"], "owner")
    assert job is not None
    await house.jobs.finish_job(job.attempt_id, "It is a trie.", usage={"completion_tokens": 12})
    said = await house.messages.write_question(USER, first.chat_id, first.id, "And then?")
    with pytest.raises(ChatTooLargeError, match="10 tokens"):
        await house.messages.request_answer(USER, first.chat_id, AnswerRequest(said.id, "q", "m", {}))
