"""Threads that are kept: never other than what the database says, and never more than may be."""

from __future__ import annotations

import asyncio
import random

import pytest
from sqlalchemy import delete, update

from radixway.chat.chats import ChatStore
from radixway.chat.database import ChatDatabase
from radixway.chat.messages import AnswerRequest
from radixway.chat.records import Message
from radixway.chat.schema import messages
from radixway.chat.threads import ThreadCache
from support.chat_house import USER, House

CHATS = ("one", "two", "three")


class Writer:
    """Does something to chats, at random, as another process would."""

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.random = random.Random(seed)
        self.answers: dict[str, list[str]] = {chat: [] for chat in CHATS}
        self.questions: dict[str, list[str]] = {chat: [] for chat in CHATS}

    async def turn(self, chat: str) -> None:
        """A question below any answer, and its answer in any state."""
        above = (
            self.answers[chat][-1] if self.random.random() < 0.8 else self.random.choice(self.answers[chat])
        )
        said = await self.house.messages.write_question(USER, chat, above, f"question {self.random.random()}")
        await self.answer(chat, said.id)

    async def answer(self, chat: str, question: str) -> None:
        asked = AnswerRequest(question, "q", "m", {"seed": self.random.randrange(100)})
        answer, _ = await self.house.messages.request_answer(USER, chat, asked)
        job = await self.house.jobs.claim_job(["q"], "other")
        assert job is not None and await self.house.jobs.mark_begun(job.attempt_id)
        await self.house.jobs.finish_job(job.attempt_id, f"answer {self.random.random()}")
        self.questions[chat].append(question)
        self.answers[chat].append(answer.id)

    async def regenerate(self, chat: str) -> None:
        await self.answer(chat, self.random.choice(self.questions[chat]))

    async def change(self, chat: str) -> None:
        """Any message, in a way that no code of ours may know of."""
        message = self.random.choice(self.answers[chat] + self.questions[chat])
        values = self.random.choice(
            [
                {"score": self.random.choice([-1, 0, 1])},
                {"content": f"other words {self.random.random()}"},
                {"safe_content": "safe", "safety_level": 2},
                {"finish_reason": "length"},
                {"work_parameters": {"seed": self.random.randrange(100)}},
            ]
        )
        async with self.house.database.write_transaction() as write:
            await write.execute(update(messages).where(messages.c.id == message).values(**values))
            if self.random.random() < 0.3:
                await write.execute(update(messages).where(messages.c.id == message).values(error="twice"))

    async def take_back(self, chat: str) -> None:
        """A change that does not come to be, and then another one."""
        message = self.random.choice(self.answers[chat])
        with pytest.raises(RuntimeError):
            async with self.house.database.write_transaction() as write:
                await write.execute(update(messages).where(messages.c.id == message).values(content="never"))
                raise RuntimeError
        await self.change(chat)

    async def cut(self, chat: str) -> None:
        """An answer goes with all below it."""
        gone = self.answers[chat].pop()
        async with self.house.database.write_transaction() as write:
            await write.execute(delete(messages).where(messages.c.id == gone))
        left = {message.id for message in await self.house.messages.list_messages(USER, chat)}
        self.answers[chat] = [each for each in self.answers[chat] if each in left]
        self.questions[chat] = [each for each in self.questions[chat] if each in left]

    async def step(self) -> None:
        chat = self.random.choice(CHATS)
        if len(self.answers[chat]) < 2:
            await self.begin(chat)
            return
        turns = [self.turn] * 4
        await self.random.choice([*turns, self.regenerate, self.change, self.take_back, self.cut])(chat)

    async def begin(self, chat: str) -> None:
        if not self.questions[chat]:
            await ChatStore(self.house.database, self.house.clock).delete_chat(USER, chat)
            await self.house.chat(chat)
            said = await self.house.messages.write_question(USER, chat, None, "first")
            await self.answer(chat, said.id)
            return
        await self.regenerate(chat)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_bytes", [1 << 20, 30_000])
async def test_what_is_told_is_what_the_database_says_whatever_happens_to_it(
    database: ChatDatabase, database_url: str, seed: int, max_bytes: int
) -> None:
    house = await House(database).open()
    elsewhere = House(ChatDatabase(database_url), clock=house.clock)
    now = [0.0]
    kept = ThreadCache(
        database, max_bytes=max_bytes, kept_s=30, min_messages=3, max_changed=4, clock=lambda: now[0]
    )
    writer = Writer(elsewhere, seed)
    for chat in CHATS:
        await house.chat(chat)
    for _ in range(60):
        await writer.step()
        chat = writer.random.choice(CHATS)
        known = writer.answers[chat] + writer.questions[chat] + ["nothing"]
        for message in {*writer.answers[chat][-1:], *writer.random.choices(known, k=2)}:
            assert await kept.load_thread(chat, message) == await house.messages.load_thread(message)
            kept.check()
        now[0] += writer.random.choice([0, 1, 40])
    assert kept.outcomes["hit"] > 0
    await elsewhere.database.aclose()


async def thread_of(house: House, turns: int, words: str = "words") -> list[Message]:
    writer = Writer(house, 0)
    await house.chat("one")
    said = await house.messages.write_question(USER, "one", None, words)
    await writer.answer("one", said.id)
    for _ in range(turns - 1):
        said = await house.messages.write_question(USER, "one", writer.answers["one"][-1], words)
        await writer.answer("one", said.id)
    return await house.messages.load_thread(writer.answers["one"][-1])


@pytest.mark.parametrize(
    "values",
    [{"content": "changed"}, {"score": -1}, {"safe_content": "safe"}, {"work_parameters": {"seed": 1}}],
)
async def test_a_change_in_another_process_is_seen_at_once(
    database: ChatDatabase, database_url: str, values: dict[str, object]
) -> None:
    house = await House(database).open()
    thread = await thread_of(house, 8)
    kept = ThreadCache(database, max_bytes=1 << 20)
    assert await kept.load_thread("one", thread[-1].id) == thread
    elsewhere = ChatDatabase(database_url)
    async with elsewhere.write_transaction() as write:
        await write.execute(update(messages).where(messages.c.id == thread[3].id).values(**values))
    await elsewhere.aclose()
    told = await kept.load_thread("one", thread[-1].id)
    assert told != thread and told == await house.messages.load_thread(thread[-1].id)


async def test_a_chat_that_goes_on_is_read_bit_by_bit(database: ChatDatabase) -> None:
    house = await House(database).open()
    thread = await thread_of(house, 8)
    kept = ThreadCache(database, max_bytes=1 << 20)
    for _ in range(3):
        assert await kept.load_thread("one", thread[-1].id) == thread
    assert dict(kept.outcomes) == {"miss": 1, "hit": 2}
    short = await kept.load_thread("one", thread[2].id)
    assert short == thread[:3]


async def test_several_who_ask_at_once_are_all_told_right(database: ChatDatabase) -> None:
    house = await House(database).open()
    thread = await thread_of(house, 8)
    kept = ThreadCache(database, max_bytes=1 << 20)
    asked = [thread[n].id for n in (15, 14, 12, 15, 3)] * 4
    told = await asyncio.gather(*(kept.load_thread("one", message) for message in asked))
    assert [each[-1].id for each in told] == asked and told[0] == thread
    kept.check()


async def test_a_chat_that_is_forgotten_leaves_nothing_in_memory(database: ChatDatabase) -> None:
    house = await House(database).open()
    thread = await thread_of(house, 8)
    kept = ThreadCache(database, max_bytes=1 << 20)
    await kept.load_thread("one", thread[-1].id)
    kept.drop_chats(["one", "unknown"])
    assert kept._size_bytes == 0 and not kept._chats
    await kept.load_thread("one", thread[-1].id)
    await ChatStore(database, house.clock).delete_chat(USER, "one")
    assert await kept.load_thread("one", thread[-1].id) == []
    assert kept._size_bytes == 0 and not kept._chats


async def test_what_nobody_asks_for_goes_by_itself(database: ChatDatabase) -> None:
    house = await House(database).open()
    thread = await thread_of(house, 8)
    kept = ThreadCache(database, max_bytes=1 << 20, kept_s=0.01)
    await kept.load_thread("one", thread[-1].id)
    async with asyncio.timeout(10):
        while kept._chats:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_answers_are_given_the_threads_that_are_kept(database: ChatDatabase) -> None:
    house = await House(database).open()
    await thread_of(house, 8)
    house.messages.histories = ThreadCache(database, max_bytes=1 << 20)
    for _ in range(2):
        said = await house.messages.write_question(USER, "one", (await tail(house)).id, "and now?")
        answer, _ = await house.messages.request_answer(USER, "one", AnswerRequest(said.id, "q", "m", {}))
        job = await house.jobs.claim_job(["q"], "owner")
        assert job is not None and job.chat_id == "one"
        assert (await house.messages.load_thread(job.message_id, job.chat_id))[-1].id == answer.id
        await house.jobs.finish_job(job.attempt_id, "so")
    assert house.messages.histories.outcomes["hit"] == 1


async def tail(house: House) -> Message:
    return (await house.messages.list_messages(USER, "one"))[-1]
