"""What is noted of questions that were made safe, and what models are shown of threads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import update

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatRefusedError
from radixway.chat.messages import AnswerRequest
from radixway.chat.records import Message
from radixway.chat.safety import BLOCKED, build_worker_thread, drop_withheld, to_shown_thread
from radixway.chat.safety.shown_threads import REFUSED
from radixway.chat.schema import messages
from support.chat_house import USER, House


async def test_only_the_attempt_that_holds_the_job_notes_that_a_question_was_made_safe(
    database: ChatDatabase,
) -> None:
    house = await House(database).open()
    answer = await house.asked()
    assert answer.parent_id is not None
    first = await house.jobs.claim_job(["q"], "one")
    assert first is not None
    await house.jobs.fail_job(first.attempt_id, "gone")
    second = await house.jobs.claim_job(["q"], "two")
    assert second is not None
    late = await house.messages.save_safe_prompt(
        first.attempt_id, answer.parent_id, "late", 2, "caution", "x"
    )
    assert late is None
    noted = await house.messages.save_safe_prompt(
        second.attempt_id, answer.parent_id, "safe", 2, "a\x00b", "be kind"
    )
    found = await house.messages.find_message(USER, answer.parent_id)
    assert noted is not None and noted == replace(found, version=noted.version)
    assert (noted.safe_content, noted.safety_level, noted.safety_label) == ("safe", 2, "ab")
    assert noted.content == "What is a radix tree?"


async def turn(house: House, chat: str, parent: str | None, content: str, **end: object) -> Message:
    """A question with an answer that ended so."""
    asked = await house.messages.write_question(USER, chat, parent, content)
    answer, _ = await house.messages.request_answer(USER, chat, AnswerRequest(asked.id, "q", "m", {}))
    job = await house.jobs.claim_job(["q"], "one")
    assert job is not None
    if "error" in end:
        await house.jobs.fail_job(job.attempt_id, str(end["error"]), again=False)
    else:
        await house.jobs.finish_job(job.attempt_id, f"re: {content}", **end)
    return answer


async def test_models_are_not_shown_what_was_kept_from_models_before(database: ChatDatabase) -> None:
    house = await House(database).open()
    chat = await house.chat()
    cut = {"finish_reason": "content_filter", "usage": {"total_tokens": 7}}
    first = await turn(house, chat, None, "harmless")
    blocked = await turn(house, chat, first.id, "blocked", **BLOCKED)
    half = await turn(house, chat, blocked.id, "cut off amid words", **cut)
    last = await turn(house, chat, half.id, "refused", error=REFUSED)
    shown = drop_withheld(await house.messages.load_thread(last.id))
    kept = ["harmless", "re: harmless", "cut off amid words", "re: cut off amid words", "refused", None]
    assert [message.content for message in shown] == kept  # the last one is what is being asked now


async def test_a_workers_own_safe_prompt_is_not_taken_for_the_question(database: ChatDatabase) -> None:
    house = await House(database).open()
    answer = await house.asked()
    job = await house.jobs.claim_job(["q"], "one")
    assert job is not None and answer.parent_id is not None
    whole = "<|prompter|>Answer the following request with caution …: What is a radix tree?<|assistant|>"
    await house.messages.save_safe_prompt(job.attempt_id, answer.parent_id, whole, 2, "caution", "")
    thread = await house.messages.load_thread(answer.id)
    assert to_shown_thread(thread) == tuple(thread)


async def test_a_worker_is_sent_words_alone_and_one_role_after_the_other(database: ChatDatabase) -> None:
    house = await House(database).open()
    chat = await house.chat()
    silent = await turn(house, chat, None, "one", error="gone")
    blank = await turn(house, chat, await below(house, silent), "two", error="gone")
    said = await turn(house, chat, await below(house, blank), "three")
    last = await turn(house, chat, said.id, "four")
    thread = await house.messages.load_thread(last.id)
    thread = [replace(each, content=" \n") if each.id == blank.id else each for each in thread]
    told = build_worker_thread(thread[:-1])
    assert [message.content for message in told] == ["one\n\ntwo\n\nthree", "re: three", "four"]
    assert [message.role for message in told] == ["prompter", "assistant", "prompter"]
    assert (told[0].id, told[-1]) == (said.parent_id, thread[-2])


async def below(house: House, answer: Message) -> str:
    """The answer as the parent of a question, which only whole ones may be by the published paths."""
    async with house.database.write_transaction() as write:
        whole = update(messages).where(messages.c.id == answer.id)
        await write.execute(whole.values(state="complete"))
    return answer.id


async def test_a_question_without_words_is_not_asked(database: ChatDatabase) -> None:
    house = await House(database).open()
    chat = await house.chat()
    asked = await house.messages.write_question(USER, chat, None, "")
    with pytest.raises(ChatRefusedError, match="no words"):
        await house.messages.request_answer(USER, chat, AnswerRequest(asked.id, "q", "m", {}))
    assert (await house.jobs.job_ages())["ready"] == (0, 0.0)
