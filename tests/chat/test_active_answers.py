"""Answers as their listeners hear them, whatever becomes of whoever gives them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import pytest

from radixway.chat import database_outages, published_shapes
from radixway.chat.active_answers import CLOCK, ActiveAnswers
from radixway.chat.answer_attempt import AnswerAttempt
from radixway.chat.coordination import make_coordination
from radixway.chat.database import ChatDatabase
from radixway.chat.database_outages import DatabaseUnavailableError
from radixway.chat.job_queue import AnswerJobQueue
from radixway.chat.messages import AnswerRequest, MessageStore
from radixway.chat.notifications import TopicNotifier
from radixway.chat.records import AnswerJob, Message, MessageState
from radixway.chat.token_log import TokenLog
from support.chat_house import USER, Clock, House


class Room:
    """One process's answers."""

    def __init__(self, database: ChatDatabase, *, lease_s: float = 30.0, valkey: str | None = None) -> None:
        self.house = House(database)
        self.log, wake, _ = make_coordination(database, valkey, kept_s=0.2)
        self.messages = MessageStore(database, time.time, self.house.limits)
        jobs = AnswerJobQueue(database, time.time, lease_s=lease_s)
        self.answers = ActiveAnswers(self.messages, jobs, self.log, wake, time.time, keep_every_s=0.05)

    async def asked(self, waits_s: float | None = None) -> Message:
        chat = await self.house.chat(f"chat-{time.monotonic_ns()}")
        said = await self.messages.write_question(USER, chat, None, "hello")
        return await self.answers.request_answer(
            USER, chat, AnswerRequest(said.id, "q", "m", {}, waits_s=waits_s)
        )

    async def heard(self, message: Message, after: int = 0) -> list[dict]:
        stream = await self.answers.follow_answer(message, after)
        assert stream is not None
        return [json.loads(entry.event) async for entry in stream]

    async def taken(self) -> AnswerAttempt:
        async with asyncio.timeout(10):
            return await self.answers.claim_job(["q"])


@pytest.fixture
async def room(database: ChatDatabase, request: pytest.FixtureRequest) -> AsyncIterator[Room]:
    """On SQLite in this process, or on PostgreSQL with Valkey."""
    valkey = None if database.is_sqlite else request.getfixturevalue("valkey")
    async with opened(Room(database, valkey=valkey)) as room:
        yield room


@asynccontextmanager
async def opened(room: Room) -> AsyncIterator[Room]:
    await room.house.open()
    async with room.answers.running():
        yield room


def words(events: list[dict]) -> str:
    return "".join(event.get("text", "") for event in events if event["event_type"] == "token")


async def test_all_listeners_hear_every_word_once_whenever_they_come(room: Room) -> None:
    answer = await room.asked()
    early = asyncio.create_task(room.heard(answer))
    attempt = await room.taken()
    assert [message.role for message in attempt.thread] == ["prompter", "assistant"]
    for word in ("A ", "radix ", "tree", "."):
        await attempt.send_text(word)
    amid = asyncio.create_task(room.heard(answer))
    assert await attempt.finish_answer(usage={"completion_tokens": 4})
    heard = [await early, await amid, await room.heard(answer), await room.heard(answer, after=2)]
    assert [words(events) for events in heard] == ["A radix tree."] * 3 + ["tree."]
    last = heard[0][-1]
    assert last["event_type"] == "message" and last["message"]["content"] == "A radix tree."
    assert all(events[-1] == last for events in heard)


async def test_a_worker_that_leaves_before_its_first_word_is_not_noticed(room: Room) -> None:
    answer = await room.asked()
    listening = asyncio.create_task(room.heard(answer))
    await (await room.taken()).fail_answer("gone")
    attempt = await room.taken()
    await attempt.send_text("Hi.")
    await attempt.finish_answer()
    assert words(await listening) == "Hi."


async def test_a_worker_that_leaves_amid_its_words_ends_the_answer_and_the_words_stay(room: Room) -> None:
    answer = await room.asked()
    attempt = await room.taken()
    await attempt.send_text("A radix")
    await attempt.fail_answer("gone")
    heard = await room.heard(answer)
    assert words(heard) == "A radix" and heard[-1]["error"] == "gone"
    left = await room.messages.find_message(USER, answer.id)
    assert (left.state, left.content) == (MessageState.ABORTED_BY_WORKER, "A radix")


async def test_who_waits_for_work_is_woken_by_it(room: Room) -> None:
    waiting = [asyncio.create_task(room.taken()) for _ in range(2)]
    await asyncio.sleep(0)
    answers = {(await room.asked()).id for _ in range(2)}
    assert {(await each).job.message_id for each in waiting} == answers


async def test_who_stops_waiting_takes_no_job_along(room: Room) -> None:
    for _ in range(20):
        waiting = asyncio.create_task(room.taken())
        asking = asyncio.create_task(room.asked())
        for _ in range(len(room.log) + 3):
            await asyncio.sleep(0)
        waiting.cancel()
        answer = await asking
        done = (await asyncio.gather(waiting, return_exceptions=True))[0]
        attempt = done if isinstance(done, AnswerAttempt) else await room.taken()
        assert attempt.job.message_id == answer.id
        await attempt.finish_answer("x")


async def test_an_answer_is_stopped_at_its_users_wish(room: Room) -> None:
    answer = await room.asked()
    attempt = await room.taken()
    await attempt.send_text("A radix")
    assert await room.answers.cancel_answer(USER, answer.id)
    await attempt.lost.wait()
    assert not await attempt.finish_answer("whole")
    assert (await room.heard(answer))[-1]["error"] == "Cancelled"
    assert (await room.messages.find_message(USER, answer.id)).content == "A radix"
    assert not await room.answers.cancel_answer(USER, answer.id)


async def test_an_answer_that_nobody_gives_ends_in_time(room: Room) -> None:
    answer = await room.asked(waits_s=0.2)
    heard = await room.heard(answer)
    assert [event["event_type"] for event in heard] == ["error"] and heard[0]["error"] == "Timeout"
    assert heard[0]["message"]["state"] == "timeout"


async def test_an_attempt_that_falls_silent_is_taken_over(database: ChatDatabase) -> None:
    async with opened(Room(database, lease_s=0.3)) as room:
        answer = await room.asked()
        silent = Room(database, lease_s=0.3)  # a process that dies with the job in its hands
        claimed = await silent.answers._jobs.claim_job(["q"], "dead")
        assert claimed is not None and claimed.message_id == answer.id
        attempt = await room.taken()
        await attempt.finish_answer("Hi.")
        assert (await room.messages.find_message(USER, answer.id)).content == "Hi."


async def test_a_log_is_forgotten_some_time_after_its_end(room: Room) -> None:
    answer = await room.asked()
    await (await room.taken()).finish_answer("Hi.")
    whole = await room.messages.find_message(USER, answer.id)
    async with asyncio.timeout(10):
        while await room.answers.follow_answer(whole) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert len(room.log) == 0


async def test_the_words_so_far_are_in_the_database_should_the_process_die(room: Room) -> None:
    answer = await room.asked()
    await (await room.taken()).send_text("A radix")
    async with asyncio.timeout(10):
        while (await room.messages.find_message(USER, answer.id)).content != "A radix":  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def _nothing() -> None:
    """Happens meanwhile."""


class WatchedJobs(AnswerJobQueue):
    """Tells how far a claim is."""

    def __init__(self, database: ChatDatabase, *, lease_s: float = 30.0, max_attempts: int = 1) -> None:
        super().__init__(database, time.time, lease_s=lease_s, max_attempts=max_attempts)
        self.found, self.found_nothing = asyncio.Event(), asyncio.Event()
        self.may_tell = asyncio.Event()
        self.is_away = False
        self.meanwhile: Callable[[], Awaitable[None]] = _nothing

    async def claim_job(self, *given, **named) -> AnswerJob | None:
        job = await super().claim_job(*given, **named)
        (self.found_nothing if job is None else self.found).set()
        if job is not None:
            await self.may_tell.wait()
        return job

    async def cancel_job(self, message_id: str, partial: str | None = None) -> bool:
        done = await super().cancel_job(message_id, partial)
        await self.meanwhile()
        return done

    async def fail_job(self, *given, **named) -> MessageState | None:
        if self.is_away:
            raise DatabaseUnavailableError("it is away")
        return await super().fail_job(*given, **named)

    async def give_back_job(self, attempt: str, noted: str | None = None) -> bool:
        if self.is_away:
            raise DatabaseUnavailableError("it is away")
        return await super().give_back_job(attempt, noted)


def with_jobs(room: Room, jobs: AnswerJobQueue) -> ActiveAnswers:
    return ActiveAnswers(room.messages, jobs, TokenLog(), TopicNotifier(), time.time)


async def test_a_claim_that_nobody_waits_for_any_more_is_no_attempt(room: Room) -> None:
    jobs = WatchedJobs(room.house.database)
    answers = with_jobs(room, jobs)
    async with answers.running():
        answer = await room.asked()
        leaving = asyncio.create_task(answers.claim_job(["q"]))
        await jobs.found.wait()
        leaving.cancel()
        jobs.may_tell.set()
        async with asyncio.timeout(10):
            attempt = await answers.claim_job(["q"])
        assert (attempt.job.message_id, attempt.job.attempts) == (answer.id, 1)
        await attempt.finish_answer("Hi.")


async def test_a_claim_under_way_when_the_process_stops_is_given_back_before_it_has(room: Room) -> None:
    jobs = WatchedJobs(room.house.database)
    answers = with_jobs(room, jobs)
    async with answers.running():
        await room.asked()
        leaving = asyncio.create_task(answers.claim_job(["q"]))
        await jobs.found.wait()
        leaving.cancel()
        asyncio.get_running_loop().call_later(0.05, jobs.may_tell.set)
    assert await jobs.ready_queues() == ["q"]


async def test_an_answer_without_words_when_the_process_stops_has_used_up_no_attempt(room: Room) -> None:
    jobs = AnswerJobQueue(room.house.database, time.time, max_attempts=1)
    answer = await room.asked()
    stopping = with_jobs(room, jobs)
    async with stopping.running(), asyncio.timeout(10):
        await stopping.claim_job(["q"])
    again = await room.taken()
    assert (again.job.message_id, again.job.attempts) == (answer.id, 1)
    await again.finish_answer("Hi.")


async def test_words_that_were_heard_while_an_answer_was_being_stopped_stay(room: Room) -> None:
    jobs = WatchedJobs(room.house.database)
    jobs.may_tell.set()
    answers = with_jobs(room, jobs)
    async with answers.running():
        answer = await room.asked()
        attempt = await answers.claim_job(["q"])
        await attempt.send_text("A radix")
        jobs.meanwhile = lambda: attempt.send_text(" tree")
        assert await answers.cancel_answer(USER, answer.id)
        assert (await room.messages.find_message(USER, answer.id)).content == "A radix tree"


async def test_a_job_that_its_writer_died_before_telling_of_is_found(room: Room) -> None:
    jobs = WatchedJobs(room.house.database, lease_s=0.3)
    jobs.may_tell.set()
    answers = with_jobs(room, jobs)
    async with answers.running(), asyncio.timeout(10):
        waiting = asyncio.create_task(answers.claim_job(["q"]))
        await jobs.found_nothing.wait()
        chat = await room.house.chat()
        said = await room.messages.write_question(USER, chat, None, "hello")
        question = AnswerRequest(said.id, "q", "m", {})
        answer, _ = await room.messages.request_answer(USER, chat, question)
        attempt = await waiting
        assert attempt.job.message_id == answer.id
        await attempt.finish_answer("Hi.")


async def test_a_process_stops_while_its_database_is_away(room: Room) -> None:
    jobs = WatchedJobs(room.house.database)
    jobs.may_tell.set()
    answers = with_jobs(room, jobs)
    async with answers.running():
        held = []
        for _ in range(2):
            await room.asked()
            held.append(await answers.claim_job(["q"]))
        jobs.is_away = True
    assert all(attempt.lost.is_set() for attempt in held)


class AwayJobs(AnswerJobQueue):
    """Of one process, for which the database can be away."""

    def __init__(self, database: ChatDatabase, clock: Clock) -> None:
        super().__init__(database, clock, lease_s=30.0)
        self.is_away = False
        self.looks = asyncio.Event()

    async def next_due(self) -> tuple[float | None, bool]:
        self.looks.set()
        self._answer()
        return await super().next_due()

    async def renew_leases(self, attempts: Collection[str]) -> set[str]:
        self._answer()
        return await super().renew_leases(attempts)

    async def save_partial_answers(self, *given, **named) -> None:
        self._answer()
        await super().save_partial_answers(*given, **named)

    async def fail_job(self, *given, **named) -> MessageState | None:
        self._answer()
        return await super().fail_job(*given, **named)

    async def finish_job(self, *given, **named):
        self._answer()
        return await super().finish_job(*given, **named)

    def _answer(self) -> None:
        if self.is_away:
            raise DatabaseUnavailableError("it is away")


class Process:
    """One of several on a database."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.jobs = AwayJobs(house.database, house.clock)
        self.log = TokenLog()
        self.answers = ActiveAnswers(
            house.messages, self.jobs, self.log, TopicNotifier(), house.clock, keep_every_s=0.02
        )

    async def looked(self) -> None:
        """It has looked for what is overdue, and done what was to be done, once more."""
        for _ in range(2):
            self.jobs.looks.clear()
            await self.answers.notify_topic(CLOCK)
            async with asyncio.timeout(10):
                await self.jobs.looks.wait()


@pytest.fixture
async def house(database: ChatDatabase) -> House:
    return await House(database).open()


async def test_a_lease_that_could_not_be_renewed_in_an_outage_is_left_to_its_holder(house: House) -> None:
    holder, other = Process(house), Process(house)
    async with holder.answers.running(), other.answers.running():
        answer = await house.asked()
        attempt = await holder.answers.claim_job(["q"])
        await attempt.send_text("A radix")
        holder.jobs.is_away = True
        house.clock.now += 300  # the other one slept, and the database is back for it
        await other.looked()
        holder.jobs.is_away = False
        assert await attempt.finish_answer("A radix tree.")
    whole = await house.now(answer)
    assert (whole.state, whole.content) == (MessageState.COMPLETE, "A radix tree.")


async def test_an_answer_that_is_whole_while_the_database_is_away_waits_for_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_outages, "RETRY_S", 0.001)
    holder = Process(house)
    async with holder.answers.running():
        answer = await house.asked()
        attempt = await holder.answers.claim_job(["q"])
        await attempt.send_text("A radix")
        holder.jobs.is_away = True
        finishing = asyncio.create_task(attempt.finish_answer("A radix tree."))
        for _ in range(20):
            house.clock.now += 60
            await asyncio.sleep(0)
        assert not finishing.done()
        holder.jobs.is_away = False
        assert await finishing
    assert (await house.now(answer)).state is MessageState.COMPLETE


async def test_leases_that_ran_out_count_again_once_each_holder_had_a_lease_to_renew_its_own(
    house: House,
) -> None:
    other = Process(house)
    async with other.answers.running():
        answer = await house.asked()
        assert await house.jobs.claim_job(["q"], "dead") is not None
        house.clock.now += 300
        await other.looked()
        assert (await house.now(answer)).state is MessageState.IN_PROGRESS
        for _ in range(4):
            house.clock.now += 7.5
            await other.looked()
        assert (await house.now(answer)).state is MessageState.PENDING


async def test_whoever_ends_what_nobody_says_any_more_keeps_the_words_that_were_heard(house: House) -> None:
    other = Process(house)
    answer = await house.asked()
    job = await house.jobs.claim_job(["q"], "dead")
    assert job is not None and await house.jobs.mark_begun(job.attempt_id)
    other.log.append_events(
        answer.id, 1, [published_shapes.encode_token("A "), published_shapes.encode_token("radix")]
    )
    async with other.answers.running():
        for _ in range(8):
            house.clock.now += 7.5
            await other.looked()
    left = await house.now(answer)
    assert (left.state, left.content) == (MessageState.ABORTED_BY_WORKER, "A radix")


async def test_words_that_could_not_be_noted_are_noted_when_the_database_is_back(house: House) -> None:
    holder = Process(house)
    async with holder.answers.running():
        answer = await house.asked()
        attempt = await holder.answers.claim_job(["q"])
        await attempt.send_text("A radix")
        holder.jobs.is_away = True
        with pytest.raises(DatabaseUnavailableError):
            await attempt.fail_answer("its worker left")
        holder.jobs.is_away = False
        async with asyncio.timeout(10):
            while (await house.now(answer)).content != "A radix":  # noqa: ASYNC110
                await asyncio.sleep(0.02)
