"""Which chats want a title, and what a model's words make of one."""

from __future__ import annotations

import pytest

from radixway.chat.chats import ChatStore
from radixway.chat.database import ChatDatabase
from radixway.chat.job_queue import AnswerJobQueue
from radixway.chat.titles import TitleJobs, clean_title
from radixway.chat.webhooks import WebhookOutbox
from support.chat_house import USER, House

CHAT = "chat-of-its-own-1"


async def answered(database: ChatDatabase) -> tuple[House, TitleJobs, ChatStore]:
    """A chat with one complete answer."""
    house = await House(database).open()
    titles = TitleJobs(database, house.clock, WebhookOutbox(database, house.clock))
    house.messages._ends.hooks = [titles.answer_ended]
    house.jobs = AnswerJobQueue(database, house.clock, ends=house.messages._ends)
    await house.asked()
    job = await house.jobs.claim_job(["q"], "owner")
    assert job is not None
    await house.jobs.finish_job(job.attempt_id, "A trie with long edges.")
    return house, titles, ChatStore(database, house.clock)


async def title(chats: ChatStore) -> tuple[str | None, str | None]:
    chat = await chats.find_chat(USER, CHAT)
    return chat.title, chat.titled_by


async def test_the_first_complete_answer_of_a_chat_is_named_once(database: ChatDatabase) -> None:
    house, titles, chats = await answered(database)
    assert await title(chats) == ("What is a radix tree?", None)
    job = await titles.claim_title()
    assert job is not None and job.chat_id == CHAT and await titles.claim_title() is None
    assert await titles.save_title(job, "Radix trees explained")
    assert await title(chats) == ("Radix trees explained", "model")
    house.clock.now += 10_000
    assert await titles.claim_title() is None


async def test_a_title_that_a_user_gives_meanwhile_stays(database: ChatDatabase) -> None:
    _, titles, chats = await answered(database)
    job = await titles.claim_title()
    assert job is not None
    await chats.update_chat(USER, CHAT, title="Mine")
    assert not await titles.save_title(job, "Radix trees explained")
    assert await title(chats) == ("Mine", "user")


async def test_a_chat_that_its_user_has_named_is_not_asked_about(database: ChatDatabase) -> None:
    house, _, _ = await answered(database)
    await house.asked()
    other = TitleJobs(database, house.clock, WebhookOutbox(database, house.clock))
    chats = ChatStore(database, house.clock)
    await chats.update_chat(USER, "chat-of-its-own-2", title="Mine")
    job = await house.jobs.claim_job(["q"], "owner")
    assert job is not None
    await house.jobs.finish_job(job.attempt_id, "An answer.")
    (first,) = [await other.claim_title()]
    assert first is not None and first.chat_id == CHAT
    assert await other.claim_title() is None


async def test_what_a_process_that_died_had_in_hand_is_taken_by_another_and_its_word_is_too_late(
    database: ChatDatabase,
) -> None:
    house, titles, chats = await answered(database)
    dead = await titles.claim_title()
    house.clock.now += 121
    other = await titles.claim_title()
    assert dead is not None and other is not None and other.attempts == 2
    assert not await titles.save_title(dead, "Too late")
    assert await titles.save_title(other, "In time")
    assert (await title(chats))[0] == "In time"


async def test_a_chat_that_was_deleted_wants_no_title(database: ChatDatabase) -> None:
    _, titles, chats = await answered(database)
    await chats.delete_chat(USER, CHAT)
    job = await titles.claim_title()
    assert job is not None and not await titles.save_title(job, "A title")
    assert await titles.next_due() is None


CHAT_TEXT = "What is a radix tree? A trie with long edges."


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("Radix trees explained", "Radix trees explained"),
        ('  "Title: Radix   trees"  \nMore words', "Radix trees"),
        ("## **Radix trees**", "Radix trees"),
        ("<think>Hm, a title\nfor this</think>\n\nRadix trees", "Radix trees"),
        ("<think>Hm, a title that is never", None),
        ("Radix\ttrees\u202e\u0000\x1b[31m", "Radix trees[31m"),
        ("", None),
        ("!!! …", None),
        ("word " * 40, "word " * 14 + "word…"),
        ("什么是基数树", None),
    ],
)
def test_what_a_model_said_becomes_one_bounded_line(said: str, wanted: str | None) -> None:
    assert clean_title(said, CHAT_TEXT) == wanted


def test_a_title_is_in_a_script_of_its_chat() -> None:
    assert clean_title("标题：基数树", "什么是基数树？ radix tree") == "基数树"
    assert clean_title("Radix trees", "什么是基数树？请解释一下,并举几个例子说明它的用途。") is None
    assert clean_title("Дерево", CHAT_TEXT) is None
