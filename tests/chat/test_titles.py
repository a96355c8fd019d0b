"""Which chats want a title, and what a model's words make of one."""

from __future__ import annotations

import pytest

from chat_house import USER, House
from radixway.chat.chats import Chats
from radixway.chat.database import Database
from radixway.chat.jobs import Jobs
from radixway.chat.titles import Titles, one_line
from radixway.chat.webhooks import Outbox

CHAT = "chat-of-its-own-1"


async def answered(database: Database) -> tuple[House, Titles, Chats]:
    """A chat with one complete answer."""
    house = await House(database).open()
    titles = Titles(database, house.clock, Outbox(database, house.clock))
    house.messages._ends.told = [titles.answer_ended]
    house.jobs = Jobs(database, house.clock, ends=house.messages._ends)
    await house.asked()
    job = await house.jobs.claim(["q"], "owner")
    assert job is not None
    await house.jobs.finish(job.attempt_id, "A trie with long edges.")
    return house, titles, Chats(database, house.clock)


async def title(chats: Chats) -> tuple[str | None, str | None]:
    chat = await chats.find(USER, CHAT)
    return chat.title, chat.titled_by


async def test_the_first_complete_answer_of_a_chat_is_named_once(database: Database) -> None:
    house, titles, chats = await answered(database)
    assert await title(chats) == ("What is a radix tree?", None)
    job = await titles.claim()
    assert job is not None and job.chat_id == CHAT and await titles.claim() is None
    assert await titles.name(job, "Radix trees explained")
    assert await title(chats) == ("Radix trees explained", "model")
    house.clock.now += 10_000
    assert await titles.claim() is None


async def test_a_title_that_a_user_gives_meanwhile_stays(database: Database) -> None:
    _, titles, chats = await answered(database)
    job = await titles.claim()
    assert job is not None
    await chats.update(USER, CHAT, title="Mine")
    assert not await titles.name(job, "Radix trees explained")
    assert await title(chats) == ("Mine", "user")


async def test_a_chat_that_its_user_has_named_is_not_asked_about(database: Database) -> None:
    house, _, _ = await answered(database)
    await house.asked()
    other = Titles(database, house.clock, Outbox(database, house.clock))
    chats = Chats(database, house.clock)
    await chats.update(USER, "chat-of-its-own-2", title="Mine")
    job = await house.jobs.claim(["q"], "owner")
    assert job is not None
    await house.jobs.finish(job.attempt_id, "An answer.")
    (first,) = [await other.claim()]
    assert first is not None and first.chat_id == CHAT
    assert await other.claim() is None


async def test_what_a_process_that_died_had_in_hand_is_taken_by_another_and_its_word_is_too_late(
    database: Database,
) -> None:
    house, titles, chats = await answered(database)
    dead = await titles.claim()
    house.clock.now += 121
    other = await titles.claim()
    assert dead is not None and other is not None and other.attempts == 2
    assert not await titles.name(dead, "Too late")
    assert await titles.name(other, "In time")
    assert (await title(chats))[0] == "In time"


async def test_a_chat_that_was_deleted_wants_no_title(database: Database) -> None:
    _, titles, chats = await answered(database)
    await chats.delete(USER, CHAT)
    job = await titles.claim()
    assert job is not None and not await titles.name(job, "A title")
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
    assert one_line(said, CHAT_TEXT) == wanted


def test_a_title_is_in_a_script_of_its_chat() -> None:
    assert one_line("标题：基数树", "什么是基数树？ radix tree") == "基数树"
    assert one_line("Radix trees", "什么是基数树？请解释一下,并举几个例子说明它的用途。") is None
    assert one_line("Дерево", CHAT_TEXT) is None
