"""Jobs are taken once, given back when their worker dies, and end in every case."""

from __future__ import annotations

import asyncio

import pytest

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatLimitExceededError, ChatQueueFullError, ChatRefusedError
from radixway.chat.job_queue import JobPosition
from radixway.chat.limits import ChatLimits
from radixway.chat.messages import AnswerRequest, own_chat
from radixway.chat.records import MessageState
from support.chat_house import USER, House


@pytest.fixture
async def house(database: ChatDatabase) -> House:
    return await House(database).open()


async def test_a_finished_answer_is_whole_and_its_job_gone(house: House) -> None:
    answer = await house.asked()
    assert answer.state is MessageState.PENDING
    job = await house.jobs.claim_job(["q"], "w")
    assert job is not None and job.message_id == answer.id
    assert (await house.now(answer)).state is MessageState.IN_PROGRESS
    assert await house.jobs.mark_begun(job.attempt_id)
    assert await house.jobs.finish_job(job.attempt_id, "A tree.", usage={"completion_tokens": 2})
    whole = await house.now(answer)
    assert (whole.state, whole.content, whole.usage) == ("complete", "A tree.", {"completion_tokens": 2})
    assert await house.jobs.claim_job(["q"], "w") is None
    assert not await house.jobs.finish_job(job.attempt_id, "again")


async def test_a_job_is_taken_once_however_many_ask_at_the_same_time(house: House) -> None:
    answers = [await house.asked() for _ in range(8)]
    jobs = await asyncio.gather(*(house.jobs.claim_job(["q"], f"w{n}") for n in range(20)))
    taken = [job.message_id for job in jobs if job is not None]
    assert sorted(taken) == sorted(answer.id for answer in answers)


async def test_higher_priority_goes_first_and_then_who_came_first(house: House) -> None:
    first, second = await house.asked(), await house.asked()
    urgent = await house.asked(priority=5)
    assert await house.jobs.find_position(second.id) == JobPosition(position=2, size=3)
    taken = [await house.jobs.claim_job(["q"], "w") for _ in range(3)]
    assert [job.message_id for job in taken if job] == [urgent.id, first.id, second.id]
    assert await house.jobs.find_position(second.id) is None


async def test_workers_take_from_their_own_queues_alone(house: House) -> None:
    await house.asked(queue="other")
    assert await house.jobs.claim_job(["q"], "w") is None
    assert await house.jobs.claim_job(["q", "other"], "w") is not None


async def test_a_worker_that_dies_before_its_first_word_costs_nothing(house: House) -> None:
    answer = await house.asked()
    lost = await house.jobs.claim_job(["q"], "dies")
    assert lost is not None
    assert (await house.jobs.reap_overdue()).requeued == ()
    house.clock.now += 31
    assert await house.jobs.next_due() == (lost.lease_until, False)
    assert (await house.jobs.reap_overdue()).requeued == (answer.id,)
    again = await house.jobs.claim_job(["q"], "lives")
    assert again is not None and again.message_id == answer.id and again.attempts == 2
    assert not await house.jobs.finish_job(lost.attempt_id, "too late")
    assert not await house.jobs.mark_begun(lost.attempt_id)
    assert await house.jobs.fail_job(lost.attempt_id, "too late") is None
    assert await house.jobs.finish_job(again.attempt_id, "in time")
    assert (await house.now(answer)).content == "in time"


async def test_a_lease_that_is_renewed_does_not_run_out(house: House) -> None:
    await house.asked()
    job = await house.jobs.claim_job(["q"], "w")
    assert job is not None
    house.clock.now += 20
    assert await house.jobs.renew_leases([job.attempt_id, "unknown"]) == {job.attempt_id}
    house.clock.now += 20
    assert await house.jobs.reap_overdue() == (
        await house.jobs.reap_overdue()
    ) and await house.jobs.finish_job(job.attempt_id, "x")


async def test_words_that_came_are_kept_when_the_worker_dies(house: House) -> None:
    answer = await house.asked()
    job = await house.jobs.claim_job(["q"], "dies")
    assert job is not None and await house.jobs.mark_begun(job.attempt_id)
    await house.jobs.save_partial_answers({answer.id: "A radix"})
    house.clock.now += 31
    assert (await house.jobs.reap_overdue()).ended == ((answer.id, MessageState.ABORTED_BY_WORKER),)
    left = await house.now(answer)
    assert (left.state, left.content) == ("aborted_by_worker", "A radix")
    assert await house.jobs.claim_job(["q"], "w") is None


async def test_who_waits_too_long_is_told_so_without_any_worker(house: House) -> None:
    answer = await house.asked(waits_s=60)
    assert await house.jobs.next_due() == (house.clock.now + 60, False)
    house.clock.now += 60
    assert await house.jobs.claim_job(["q"], "late") is None
    assert (await house.jobs.reap_overdue()).ended == ((answer.id, MessageState.TIMEOUT),)
    assert (await house.now(answer)).state is MessageState.TIMEOUT


async def test_a_job_that_was_given_back_has_its_whole_time_to_wait_again(house: House) -> None:
    answer = await house.asked(waits_s=60)
    house.clock.now += 50
    job = await house.jobs.claim_job(["q"], "dies")
    assert job is not None
    house.clock.now += 31
    assert (await house.jobs.reap_overdue()).requeued == (answer.id,)
    house.clock.now += 59
    assert (await house.jobs.reap_overdue()).ended == ()


async def test_an_error_is_tried_again_until_there_were_enough_attempts(house: House) -> None:
    answer = await house.asked()
    for state in (MessageState.PENDING, MessageState.PENDING, MessageState.ABORTED_BY_WORKER):
        job = await house.jobs.claim_job(["q"], "w")
        assert job is not None
        assert await house.jobs.fail_job(job.attempt_id, "out of memory") is state
    assert await house.jobs.claim_job(["q"], "w") is None
    assert (await house.now(answer)).error == "out of memory"


async def test_a_job_given_back_for_later_waits_till_then(house: House) -> None:
    await house.asked()
    job = await house.jobs.claim_job(["q"], "w")
    assert job is not None
    await house.jobs.fail_job(job.attempt_id, "busy", after_s=5)
    assert await house.jobs.claim_job(["q"], "w") is None
    assert await house.jobs.next_due() == (house.clock.now + 5, False)
    house.clock.now += 5
    assert await house.jobs.claim_job(["q"], "w") is not None


async def test_what_is_cancelled_ends_at_once_and_frees_its_worker(house: House) -> None:
    waiting, running = await house.asked(queue="other"), await house.asked()
    job = await house.jobs.claim_job(["q"], "w")
    assert job is not None
    assert await house.jobs.cancel_job(waiting.id) and await house.jobs.cancel_job(running.id, partial="A ra")
    assert await house.jobs.renew_leases([job.attempt_id]) == set()
    assert not await house.jobs.finish_job(job.attempt_id, "whole")
    assert (await house.now(running)).content == "A ra"
    assert not await house.jobs.cancel_job(running.id)


async def test_a_user_has_so_many_answers_at_once(database: ChatDatabase) -> None:
    house = await House(database, ChatLimits(at_once=2)).open()
    await house.asked()
    await house.asked()
    with pytest.raises(ChatLimitExceededError, match="2 answers at a time"):
        await house.asked()
    job = await house.jobs.claim_job(["q"], "w")
    assert job is not None and await house.jobs.finish_job(job.attempt_id, "done")
    await house.asked()


async def test_a_full_queue_takes_no_more_and_leaves_no_orphan(database: ChatDatabase) -> None:
    house = await House(database, ChatLimits(at_once=None, waiting=1)).open()
    await house.asked()
    chat = await house.chat()
    said = await house.messages.write_question(USER, chat, None, "hello")
    with pytest.raises(ChatQueueFullError, match="currently busy"):
        await house.messages.request_answer(USER, chat, AnswerRequest(said.id, "q", "m", {}))
    assert [message.id for message in await house.messages.list_messages(USER, chat)] == [said.id]


async def test_the_same_key_gives_the_same_answer(house: House) -> None:
    chat = await house.chat()
    said = await house.messages.write_question(USER, chat, None, "hello", idempotency_key="a")
    assert await house.messages.write_question(USER, chat, None, "hello", idempotency_key="a") == said
    question = AnswerRequest(said.id, "q", "m", {}, idempotency_key="b")
    both = await asyncio.gather(*(house.messages.request_answer(USER, chat, question) for _ in range(2)))
    assert both[0][0].id == both[1][0].id
    assert await house.jobs.claim_job(["q"], "w") is not None
    assert await house.jobs.claim_job(["q"], "w") is None


@pytest.mark.parametrize("while_busy", ["reject", "interrupt", "enqueue"])
async def test_a_second_question_while_the_first_is_answered(house: House, while_busy: str) -> None:
    chat = await house.chat()
    said = await house.messages.write_question(USER, chat, None, "hello")
    first, _ = await house.messages.request_answer(USER, chat, AnswerRequest(said.id, "q", "m", {}))
    async with house.database.write_transaction() as write:
        other = await house.messages.write_prompt(
            write, await own_chat(write, USER, chat), None, "good morning"
        )
    question = AnswerRequest(other.id, "q", "m", {})
    asking = house.messages.request_answer(USER, chat, question, while_busy=while_busy)
    if while_busy == "reject":
        with pytest.raises(ChatQueueFullError):
            await asking
        return
    second, ended = await asking
    assert ended == ([first.id] if while_busy == "interrupt" else [])
    assert (await house.now(first)).state is (MessageState.CANCELLED if ended else MessageState.PENDING)
    assert (await house.now(second)).state is MessageState.PENDING


async def test_answers_to_one_question_do_not_end_each_other(house: House) -> None:
    chat = await house.chat()
    said = await house.messages.write_question(USER, chat, None, "hello")
    question = AnswerRequest(said.id, "q", "m", {})
    asked = [
        house.messages.request_answer(USER, chat, question, while_busy="interrupt", spare_running=spared)
        for spared in (True, True, False)
    ]
    drafts = [draft for draft, ended in await asyncio.gather(*asked) if not ended]
    assert [(await house.now(draft)).state for draft in drafts] == [MessageState.PENDING] * 3


@pytest.mark.parametrize("spared", [True, False])
async def test_the_published_paths_end_no_answer_that_has_begun(house: House, spared: bool) -> None:
    chat = await house.chat()
    said = await house.messages.write_question(USER, chat, None, "hello")
    first, _ = await house.messages.request_answer(USER, chat, AnswerRequest(said.id, "q", "m", {}))
    assert await house.jobs.claim_job(["q"], "w") is not None
    async with house.database.write_transaction() as write:
        other = await house.messages.write_prompt(
            write, await own_chat(write, USER, chat), None, "good morning"
        )
    question = AnswerRequest(other.id, "q", "m", {})
    _, ended = await house.messages.request_answer(
        USER, chat, question, while_busy="interrupt", spare_running=spared
    )
    assert ended == ([] if spared else [first.id])


async def test_what_may_follow_what(house: House) -> None:
    chat = await house.chat()
    with pytest.raises(ChatRefusedError, match="Parent message not found"):
        await house.messages.write_question(USER, chat, "nobody", "hello")
    said = await house.messages.write_question(USER, chat, None, "hello")
    with pytest.raises(ChatRefusedError, match="first message to non-empty chat"):
        await house.messages.write_question(USER, chat, None, "hello")
    with pytest.raises(ChatRefusedError, match="not an assistant message"):
        await house.messages.write_question(USER, chat, said.id, "hello")
    answer, _ = await house.messages.request_answer(USER, chat, AnswerRequest(said.id, "q", "m", {}))
    with pytest.raises(ChatRefusedError, match="not complete"):
        await house.messages.write_question(USER, chat, answer.id, "more")
    job = await house.jobs.claim_job(["q"], "w")
    assert job is not None and await house.jobs.finish_job(job.attempt_id, "Hi.")
    more = await house.messages.write_question(USER, chat, answer.id, "more")
    assert [message.id for message in await house.messages.load_thread(more.id)] == [
        said.id,
        answer.id,
        more.id,
    ]
