"""A further question in a chat that is being answered waits for the answer above it."""

from __future__ import annotations

import pytest

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatTooLargeError
from radixway.chat.job_queue import BLOCKED
from radixway.chat.limits import ChatLimits
from radixway.chat.messages import AnswerRequest, own_chat
from radixway.chat.records import Message, MessageState
from support.chat_house import USER, House


@pytest.fixture
async def house(database: ChatDatabase) -> House:
    return await House(database).open()


async def asked_below(house: House, answer: Message) -> Message:
    """An answer to a question below one that is under way."""
    async with house.database.write_transaction() as write:
        chat = await own_chat(write, USER, answer.chat_id)
        said = await house.messages.write_prompt(write, chat, answer.id, "And then?")
    question = AnswerRequest(said.id, "q", "m", {}, waits_s=60)
    return (await house.messages.request_answer(USER, answer.chat_id, question))[0]


async def test_it_begins_when_the_answer_above_is_whole(house: House) -> None:
    first = await house.asked()
    second = await asked_below(house, first)
    job = await house.jobs.claim_job(["q"], "me")
    assert job is not None and job.message_id == first.id
    house.clock.now += 1000  # more than it may wait for a worker
    assert await house.jobs.release_waiting() == set() and await house.jobs.claim_job(["q"], "me") is None
    assert await house.jobs.finish_job(job.attempt_id, "A tree.")
    assert await house.jobs.release_waiting() == {"q"}
    assert not (await house.jobs.reap_overdue()).ended
    job = await house.jobs.claim_job(["q"], "me")
    assert job is not None and job.message_id == second.id
    thread = await house.messages.load_thread(second.id)
    assert [message.content for message in thread[:-1]] == ["What is a radix tree?", "A tree.", "And then?"]


async def test_it_begins_when_the_answer_above_was_stopped_or_nobody_gave_it(house: House) -> None:
    stopped, late = await house.asked(), await house.asked(waits_s=5)
    await asked_below(house, stopped)
    await asked_below(house, late)
    await house.jobs.cancel_job(stopped.id)
    assert await house.jobs.release_waiting() == {"q"}
    house.clock.now += 6
    assert (await house.jobs.reap_overdue()).ended == ((late.id, MessageState.TIMEOUT),)
    assert await house.jobs.release_waiting() == {"q"} and await house.jobs.release_waiting() == set()


async def test_it_can_be_stopped_while_it_waits(house: House) -> None:
    second = await asked_below(house, await house.asked())
    assert await house.jobs.find_position(second.id) is None, f"{BLOCKED} jobs have no place in the queue"
    assert await house.jobs.cancel_job(second.id)
    assert (await house.now(second)).state is MessageState.CANCELLED


async def test_a_chat_that_has_used_its_tokens_gets_no_further_answers(database: ChatDatabase) -> None:
    house = await House(database, ChatLimits(at_once=None, tokens=10)).open()
    first = await house.asked()
    job = await house.jobs.claim_job(["q"], "me")
    assert job is not None
    await house.jobs.finish_job(job.attempt_id, "A tree.", usage={"total_tokens": 10})
    with pytest.raises(ChatTooLargeError, match="10 tokens"):
        await asked_below(house, first)
    assert (await house.asked()).state is MessageState.PENDING  # in another chat
