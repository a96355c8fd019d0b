"""Responses as they are kept, on every database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import Table, func, select, text

from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.limits import ChatLimits
from radixway.chat.migrations import migrate
from radixway.chat.notifications import TopicNotifier
from radixway.chat.schema import chats, messages, question_items, responses, users
from radixway.chat.stored_responses import NewResponse, ResponseStore, StoredResponse
from radixway.chat.token_log import TokenLog
from support.chat_house import USER, House

TABLES = (chats, messages, question_items, responses)


class Kept(House):
    """A house with responses in it."""

    async def open(self) -> Kept:
        await super().open()
        self.answers = ActiveAnswers(self.messages, self.jobs, TokenLog(), TopicNotifier(), self.clock)
        self.kept = ResponseStore(self.database, self.answers, self.clock)
        return self

    async def asked(self, content: str = "Why?", user: str = USER, **fields: Any) -> StoredResponse:  # type: ignore[override]
        items = [{"id": "msg_1", "type": "message", "role": "user", "content": content}]
        new = NewResponse(content, items, {"model": "m"}, "q", "m", {}, **fields)
        return await self.kept.create_response(user, new, self.messages)

    async def answered(self, **fields: Any) -> StoredResponse:
        made = await self.asked(**fields)
        job = await self.jobs.claim_job(["q"], "owner")
        assert job is not None and job.message_id == made.message.id
        await self.kept.save_output(made.message.id, job.attempt_id, [{"kind": "text", "text": "So."}])
        assert await self.jobs.finish_job(job.attempt_id, "So.")
        return await self.kept.find_response(USER, made.message.id)

    async def count(self, table: Table) -> int:
        async with self.database.read_connection() as read:
            counted: int = (await read.execute(select(func.count()).select_from(table))).scalar_one()
            return counted


@pytest.fixture
async def house(database: ChatDatabase) -> Kept:
    return await Kept(database).open()


async def test_one_goes_on_from_another_in_the_same_chat(house: Kept) -> None:
    first = await house.answered()
    second = await house.asked("And?", previous=first.message.id)
    assert first.output == [{"kind": "text", "text": "So."}]
    thread = await house.messages.load_thread(second.message.id)
    assert [message.content for message in thread] == ["Why?", "So.", "And?", None]
    questions, answers = await house.kept.load_items([message.id for message in thread])
    assert len(questions) == 2 and list(answers) == [first.message.id]


async def test_what_is_another_users_is_not_found(house: Kept) -> None:
    first = await house.answered()
    row = {"id": "adam", "tenant": "default", "provider": "local", "provider_account_id": "adam"}
    async with house.database.write_transaction() as write:
        await write.execute(users.insert().values(**row, display_name="Adam", created_at=0.0))
    for call in (
        house.kept.find_response("adam", first.message.id),
        house.kept.delete_response("adam", first.message.id),
    ):
        with pytest.raises(ChatNotFoundError):
            await call
    with pytest.raises(ChatNotFoundError):
        await house.asked(user="adam", previous=first.message.id)
    assert await house.count(messages) == 2


async def test_calls_at_once_with_one_key_make_one_response(house: Kept) -> None:
    made = await asyncio.gather(*(house.asked(idempotency_key="k") for _ in range(4)))
    assert len({response.message.id for response in made}) == 1
    assert await house.count(messages) == 2


async def test_an_attempt_that_was_lost_changes_no_output(house: Kept) -> None:
    made = await house.asked()
    lost = await house.jobs.claim_job(["q"], "one")
    assert lost is not None
    house.clock.now += 31
    await house.jobs.reap_overdue()
    current = await house.jobs.claim_job(["q"], "two")
    assert current is not None
    await house.kept.save_output(made.message.id, current.attempt_id, [{"kind": "text", "text": "New"}])
    await house.kept.save_output(made.message.id, lost.attempt_id, [{"kind": "text", "text": "Old"}])
    found = await house.kept.get_response(made.message.id)
    assert found is not None and found.output == [{"kind": "text", "text": "New"}]


async def test_what_a_cancelled_one_said_is_kept(house: Kept) -> None:
    made = await house.asked()
    job = await house.jobs.claim_job(["q"], "one")
    assert job is not None and await house.jobs.cancel_job(made.message.id, "So")
    await house.kept.save_output(made.message.id, job.attempt_id, [{"kind": "thinking", "text": "Hm"}])
    found = await house.kept.get_response(made.message.id)
    assert found is not None and found.output == [{"kind": "thinking", "text": "Hm"}]


async def test_texts_that_others_need_are_deleted_with_the_last_of_these(house: Kept) -> None:
    first = await house.answered()
    second = await house.answered(previous=first.message.id)
    branch = await house.answered(previous=first.message.id)
    await house.kept.delete_response(USER, first.message.id)
    await house.kept.delete_response(USER, second.message.id)
    assert await house.count(messages) == 4
    thread = await house.messages.load_thread(branch.message.id)
    assert [message.content for message in thread] == ["Why?", "So.", "Why?", "So."]
    await house.kept.delete_response(USER, branch.message.id)
    assert [await house.count(table) for table in TABLES] == [0, 0, 0, 0]


async def test_a_refused_response_leaves_nothing(house: Kept) -> None:
    few = House(house.database, ChatLimits(at_once=1)).messages
    first = await house.asked()
    new = NewResponse("Again?", [], {}, "q", "m", {})
    before = [await house.count(table) for table in TABLES]
    with pytest.raises(Exception, match="1 answers at a time"):
        await house.kept.create_response(USER, new, few)
    assert [await house.count(table) for table in TABLES] == before
    made = await house.kept.create_response(USER, new, few.without_limits())
    assert made.message.chat_id != first.message.chat_id


async def test_a_database_of_before_has_responses_too(database_url: str) -> None:
    database = ChatDatabase(database_url)
    await migrate(database, "0008-1")
    async with database.write_transaction() as write:
        for row in (
            "users (id, tenant, provider, provider_account_id, display_name, created_at)"
            " VALUES ('amy', 'default', 'local', 'amy', 'Amy', 0)",
            "chats (id, user_id, created_at, modified_at) VALUES ('before', 'amy', 0, 0)",
            "messages (id, chat_id, role, state, content, created_at)"
            " VALUES ('asked', 'before', 'prompter', 'manual', 'Before?', 0)",
        ):
            await write.execute(text(f"INSERT INTO {row}"))
    await migrate(database)
    house = await Kept(database).open()
    await house.answered()
    assert (await house.messages.find_message("amy", "asked")).content == "Before?"
    await database.aclose()
