"""Calls of one user that come at the same moment, to several connections of one database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from dataclasses import replace

import pytest
from sqlalchemy import text

from radixway.chat import statements
from radixway.chat.accounts import UserAccounts
from radixway.chat.chats import ChatStore
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatLimitExceededError, ChatRefusedError, IdempotencyKeyReusedError
from radixway.chat.ids import digest_request
from radixway.chat.limits import AnswerRate, ChatLimits
from radixway.chat.messages import AnswerRequest, MessageStore
from radixway.chat.migrations import migrate
from radixway.chat.records import Message
from radixway.chat.server_secrets import ServerSecrets
from radixway.chat.share_links import ShareLinks
from radixway.chat.user_tokens import InvalidTokenError, TokenIssuer, TokenPair
from support.chat_house import USER, Clock, House

TOGETHER = 8
WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


async def test_no_more_answers_at_once_than_a_user_may_have(database: ChatDatabase) -> None:
    house = await House(database).open()
    texts = MessageStore(database, house.clock, ChatLimits(at_once=3, rate=AnswerRate(1000, 60)))

    async def ask(number: int) -> str:
        chat_id = await house.chat(f"chat-{number}")
        said = await texts.write_question(USER, chat_id, None, "hello")
        return said.id

    asked = [await ask(number) for number in range(TOGETHER)]
    told = await asyncio.gather(
        *(
            texts.request_answer(USER, f"chat-{number}", AnswerRequest(said, "q", "m", {}))
            for number, said in enumerate(asked)
        ),
        return_exceptions=True,
    )
    assert Counter(type(each) for each in told) == {tuple: 3, ChatLimitExceededError: TOGETHER - 3}


async def test_an_answer_that_is_one_too_many_is_not_counted(database: ChatDatabase) -> None:
    house = await House(database).open()
    texts = MessageStore(database, house.clock, ChatLimits(at_once=1, rate=AnswerRate(2, 60)))
    chat_id = await house.chat()
    said = await texts.write_question(USER, chat_id, None, "hello")
    first, _ = await texts.request_answer(USER, chat_id, AnswerRequest(said.id, "q", "m", {}))
    for _ in range(3):
        with pytest.raises(ChatLimitExceededError, match="1 answers at a time"):
            await texts.request_answer(USER, chat_id, AnswerRequest(said.id, "q", "m", {}))
    await house.jobs.cancel_job(first.id)
    await texts.request_answer(USER, chat_id, AnswerRequest(said.id, "q", "m", {}))


async def test_somebody_new_who_comes_with_several_calls_is_one_user(database: ChatDatabase) -> None:
    accounts = UserAccounts(database, Clock())
    came = await asyncio.gather(
        *(accounts.enroll_user("default", "tenant", "eve", "Eve", new_id=f"id-{n}") for n in range(TOGETHER))
    )
    came += await asyncio.gather(
        *(accounts.enroll_user("default", "debug", "ann", "Ann", new_id="ann") for _ in range(TOGETHER))
    )
    assert len({user.id for user in came}) == 2 and len(await accounts.list_users()) == 2


async def test_of_a_refresh_token_that_comes_twice_at_once_nothing_is_left(database: ChatDatabase) -> None:
    await House(database).open()
    credentials = TokenIssuer(ServerSecrets("secret", "salt", "root"), database, Clock())
    for _ in range(5):
        stolen = await credentials.issue_pair(USER)
        told = await asyncio.gather(
            *(credentials.refresh_pair(stolen.refresh) for _ in range(TOGETHER)), return_exceptions=True
        )
        (fresh,) = (each for each in told if isinstance(each, TokenPair))
        with pytest.raises(InvalidTokenError):
            await credentials.refresh_pair(fresh.refresh)


async def test_a_share_is_made_on_one_connection(database_url: str, database: ChatDatabase) -> None:
    house = await House(database).open()
    said = await house.messages.write_question(USER, await house.chat(), None, "hello")
    alone = ChatDatabase(database_url, connections=1)
    try:
        shares = ShareLinks(alone, MessageStore(alone, house.clock), house.clock)
        async with asyncio.timeout(20):
            share, _ = await shares.create_link(USER, said.chat_id, None, None)
    finally:
        await alone.aclose()
    assert share.message_id == said.id


async def test_a_chat_is_deleted_while_its_answer_ends(database: ChatDatabase) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite has one writer at a time")
    house = await House(database).open()
    answer = await house.asked()
    job = await house.jobs.claim_job(["q"], "worker")
    assert job is not None
    async with database.write_transaction() as write:
        await write.execute(statements.LEASED_MESSAGE, {"attempt": job.attempt_id})
        deleting = asyncio.create_task(ChatStore(database, house.clock).delete_chat(USER, answer.chat_id))
        async with database.read_connection() as read, asyncio.timeout(20):
            while not (await read.execute(WAITING)).scalar_one():
                pass
        await write.execute(statements.CHANGE_MESSAGE, {"message": answer.id, "state": "complete"})
    await deleting
    assert await house.messages.get_message(answer.id) is None


async def test_a_key_of_another_call_is_refused(database: ChatDatabase) -> None:
    house = await House(database).open()
    texts, chat = house.messages, await house.chat()
    said = await texts.write_question(USER, chat, None, "hello", idempotency_key="a")
    question = AnswerRequest(said.id, "q", "m", {}, idempotency_key="b")
    answer, _ = await texts.request_answer(USER, chat, question)
    assert (await texts.request_answer(USER, chat, question))[0].id == answer.id
    for other in (replace(question, idempotency_key="a"), replace(question, parent_id=answer.id)):
        with pytest.raises(ChatRefusedError, match="another call"):
            await texts.request_answer(USER, chat, other)
    with pytest.raises(ChatRefusedError, match="another call"):
        await texts.write_question(USER, chat, answer.id, "hello", idempotency_key="b")


async def test_a_key_with_other_words_is_refused(database: ChatDatabase) -> None:
    house = await House(database).open()
    texts, chat = house.messages, await house.chat()

    def ask(words: str) -> Awaitable[Message]:
        digest = digest_request("say", {"content": words})
        return texts.write_question(USER, chat, None, words, idempotency_key="k", request_digest=digest)

    first, second = await asyncio.gather(ask("hello"), ask("hello"))
    assert first == second and first.request_digest is not None
    with pytest.raises(IdempotencyKeyReusedError):
        await ask("good morning")
    assert await texts.list_messages(USER, chat) == [first]
    by_hand = await texts.write_question(
        USER, chat, None, "whatever", idempotency_key="k"
    )  # without a digest: as before
    assert by_hand == first


async def test_keys_of_before_digests_give_what_they_gave(database_url: str) -> None:
    database = ChatDatabase(database_url)
    await migrate(database, "0014")
    rows = (
        "INSERT INTO users (id, tenant, provider, provider_account_id, display_name, created_at)"
        f" VALUES ('{USER}', 'default', 'local', '{USER}', 'Eve', 0)",
        f"INSERT INTO chats (id, user_id, created_at, modified_at) VALUES ('chat', '{USER}', 0, 0)",
        "INSERT INTO messages (id, chat_id, role, state, content, created_at, idempotency_key)"
        " VALUES ('said', 'chat', 'prompter', 'manual', 'hello', 0, 'k')",
    )
    async with database.write_transaction() as write:
        for row in rows:
            await write.execute(text(row))
    await migrate(database)
    texts = House(database).messages
    digest = digest_request("say", {"content": "other words"})
    again = await texts.write_question(
        USER, "chat", None, "other words", idempotency_key="k", request_digest=digest
    )
    assert (again.id, again.content, again.request_digest) == ("said", "hello", None)
    await database.aclose()
