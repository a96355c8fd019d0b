"""All of a user is told to them, and all of it forgotten."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection, Table, inspect, select, text

from radixway.chat import published_shapes
from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.chats import ChatStore
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.migrations import migrate
from radixway.chat.notifications import TopicNotifier
from radixway.chat.privacy import AccountExport, ErasedIds, FileScrubber, UserErasure
from radixway.chat.privacy.row_owners import NOBODYS, OF_SEARCH, OWNERS
from radixway.chat.schema import conversations, messages, metadata, unscrubbed, users
from radixway.chat.stored_responses import ConversationStore
from radixway.chat.token_log import TokenLog
from radixway.chat.webhooks import ConfiguredTarget, WebhookOutbox
from radixway.core.component import CannotErase
from support.chat_house import House
from support.planted_rows import everything, plant, word

ALICE = "龘靐齉"
"""What the index of words keeps of her is nobody else's."""
TENANT = "{0} has users.tenant of {0}"
NOT_WORDS = {"role", "state", "finish_reason", "user_id"}


def forgetting_of(house: House, tokens: TokenLog | None = None, **scrubbing: object) -> UserErasure:
    answers = ActiveAnswers(house.messages, house.jobs, tokens or TokenLog(), TopicNotifier(), house.clock)
    scrubber = FileScrubber(house.database, **scrubbing)  # type: ignore[arg-type]
    return UserErasure(house.database, answers, scrubber, house.clock)


async def test_of_every_table_it_is_known_whose_its_rows_are(database: ChatDatabase) -> None:
    def names(connection: Connection) -> set[str]:
        return set(inspect(connection).get_table_names())

    async with database.read_connection() as read:
        there = {name for name in await read.run_sync(names) if not name.startswith(tuple(OF_SEARCH))}
    known = {table.name for table in (*OWNERS, *NOBODYS)}
    assert there - {"alembic_version"} == known == set(metadata.tables)
    assert not OWNERS.keys() & NOBODYS
    above: set[Table] = set()
    for table, by in OWNERS.items():
        assert by.of in above if by.of is not None else by.column.name == "user_id" or table is users, table
        assert {key.column.table for key in table.foreign_keys} <= above | {table}, table
        above.add(table)


def test_whatever_refers_to_a_row_is_found_by_an_index() -> None:
    def leading(table: Table) -> set[str]:
        several = [table.primary_key.columns, *(index.columns for index in table.indexes)]
        several += [each.columns for each in table.constraints if each.__visit_name__ == "unique_constraint"]
        return {next(iter(columns)).name for columns in several} | {c.name for c in table.columns if c.unique}

    without = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if column.foreign_keys and column.name not in leading(table)
    }
    assert not without


async def test_one_user_goes_and_another_loses_nothing(database: ChatDatabase) -> None:
    house = House(database)
    await plant(database, "alice")
    async with database.read_connection() as read:
        hers_alone = await everything(read)
    await plant(database, "bob")
    forgotten: list[ErasedIds] = []

    async def told(ids: ErasedIds) -> None:
        forgotten.append(ids)

    forgetting = forgetting_of(house)
    forgetting.also.append(told)

    assert await forgetting.erase_users(TENANT.format("bob"), "bob") == len(OWNERS)

    async with database.read_connection() as read:
        assert await everything(read) == hers_alone
    assert forgotten[0].users == ["bob"]
    assert len(forgotten[0].chats) == len(forgotten[0].messages) == 1
    assert await forgetting.erase_users(TENANT.format("bob"), "bob") == 0
    assert len(forgotten) == 1


async def test_a_user_is_meant_by_their_account_too_and_never_one_of_another_tenant(
    database: ChatDatabase,
) -> None:
    house = await House(database).open()
    forgetting = forgetting_of(house)
    assert await forgetting.erase_users("others", "user-1") == 0
    assert await forgetting.erase_users("default", "elsewhere:user-1") == 0
    assert await forgetting.erase_users("default", "local:user-1") == 1


async def test_a_tenant_goes_with_all_its_users_those_that_left_included(database: ChatDatabase) -> None:
    house = await House(database).open()
    for name, tenant, deleted in (("amy", "acme", False), ("ann", "acme", True)):
        row = {"id": name, "tenant": tenant, "provider": "local", "provider_account_id": name}
        async with database.write_transaction() as write:
            await write.execute(
                users.insert().values(**row, display_name="", created_at=0.0, deleted=deleted)
            )
    assert await forgetting_of(house).erase_users("acme") == 2
    async with database.read_connection() as read:
        assert list((await read.execute(select(users.c.id))).scalars()) == ["user-1"]


async def test_an_answer_under_way_ends_first_and_its_log_is_gone(database: ChatDatabase) -> None:
    house, tokens = await House(database).open(), TokenLog()
    answers = ActiveAnswers(house.messages, house.jobs, tokens, TopicNotifier(), house.clock)
    forgetting = UserErasure(database, answers, FileScrubber(database), house.clock)
    waiting, running = await house.asked("later"), await house.asked("now")
    attempt = await answers.claim_job(["now"])
    await attempt.send_text("Well")
    stream = await answers.follow_answer(running)
    assert stream is not None

    async def heard() -> list[bytes]:
        return [entry.event async for entry in stream]

    listening = asyncio.create_task(heard())
    await asyncio.sleep(0)

    await forgetting.erase_users("default", "user-1")

    assert attempt.lost.is_set()
    async with asyncio.timeout(5):
        told = await listening
    assert told[0] == published_shapes.encode_token("Well") and json.loads(told[-1])["event_type"] == "error"
    assert not await tokens.has_log(running.id) and not await tokens.has_log(waiting.id)
    assert not await attempt.finish_answer("Well, nobody wants to know.")
    assert not await tokens.has_log(running.id) and len(tokens) == 0


async def test_nobody_finds_a_trace_in_the_files(tmp_path: Path) -> None:
    database = ChatDatabase(f"sqlite:///{tmp_path / 'chats.db'}")
    await migrate(database)
    await plant(database, ALICE)
    await plant(database, "bob")
    before = _files(tmp_path)
    planted = [
        word(ALICE, table, column).encode()
        for table, column in ((table, column) for table in OWNERS for column in table.columns)
        if str(column.type) == "TEXT"
        and column.name not in NOT_WORDS
        and not column.foreign_keys
        and column is not OWNERS[table].column
    ]
    assert len(planted) > 20 and not [each for each in planted if each not in before]
    assert ALICE[1:].encode() in before, "the index of words has none of hers as it cuts them"

    await forgetting_of(House(database)).erase_users(TENANT.format(ALICE), ALICE)

    after = _files(tmp_path)
    assert not [each for each in (*planted, ALICE.encode(), ALICE[1:].encode()) if each in after]
    assert b"bob has messages.content" in after
    async with database.read_connection() as read:
        assert list(await read.execute(select(unscrubbed))) == []
    await database.aclose()


async def test_what_a_reader_of_old_pages_keeps_in_the_files_is_owed_till_it_is_gone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'chats.db'}"
    database = ChatDatabase(url)
    await migrate(database)
    await plant(database, ALICE)
    reader = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
    reader.execute("BEGIN")
    assert len(reader.execute("SELECT id FROM chats").fetchall()) == 1
    with pytest.raises(CannotErase, match="old pages"):
        await forgetting_of(House(database), checkpoint_ms=20).erase_users(TENANT.format(ALICE), ALICE)
    assert ALICE.encode() in _files(tmp_path)
    await database.aclose()
    reader.close()

    another_process = ChatDatabase(url)
    assert await forgetting_of(House(another_process)).erase_users(TENANT.format(ALICE), ALICE) == 0
    assert ALICE.encode() not in _files(tmp_path)
    await another_process.aclose()


def _files(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


async def test_files_are_written_anew_a_twentieth_of_the_time_at_most(database: ChatDatabase) -> None:
    house, now = await House(database).open(), 0.0

    def clock() -> float:
        nonlocal now
        now += 3.0  # of which each writing takes one step
        return now

    forgetting = forgetting_of(house, clock=clock)
    await forgetting.erase_users("default", "user-1")
    await house.open()
    with pytest.raises(CannotErase, match="rewritten in"):
        await forgetting.erase_users("default", "user-1")
    async with database.read_connection() as read:
        assert (await read.execute(select(users.c.id))).first() is None
    now += 100
    assert await forgetting.erase_users("default", "user-1") == 0
    async with database.read_connection() as read:
        assert (await read.execute(select(unscrubbed))).first() is None


async def test_a_user_is_told_every_row_and_no_secret(database: ChatDatabase) -> None:
    await plant(database, "alice")
    await plant(database, "bob")
    lines = b"".join([part async for part in await AccountExport(database, lambda: 0.0).export_user("alice")])
    told = [json.loads(line) for line in lines.splitlines()]
    assert told[0]["user_id"] == "alice"
    assert [line["table"] for line in told[1:]] == [table.name for table in OWNERS]
    for line, table in zip(told[1:], OWNERS, strict=True):
        hidden = {column.name for column in table.columns if column.name not in line["row"]}
        assert all(name.endswith(("_hash", "secret")) for name in hidden)
    assert b"bob" not in lines and b"_hash" not in lines
    with pytest.raises(ChatNotFoundError):
        await AccountExport(database, lambda: 0.0).export_user("nobody")


async def test_what_is_told_has_every_row_of_tables_longer_than_a_page(database: ChatDatabase) -> None:
    house = await House(database).open()
    chat = await house.chat()
    async with database.write_transaction() as write:
        for tag in range(250):
            await write.execute(
                text("INSERT INTO chat_tags (chat_id, tag) VALUES (:chat, :tag)"),
                {"chat": chat, "tag": f"tag {tag:03}"},
            )
    lines = b"".join(
        [part async for part in await AccountExport(database, lambda: 0.0).export_user("user-1")]
    )
    tags = [json.loads(line)["row"]["tag"] for line in lines.splitlines() if b'"chat_tags"' in line]
    assert tags == [f"tag {tag:03}" for tag in range(250)]


async def test_configured_addresses_are_told_of_a_user_who_goes_and_of_nothing_that_was_said(
    database: ChatDatabase,
) -> None:
    house = House(database)
    await plant(database, "alice")
    outbox = WebhookOutbox(
        database, house.clock, [ConfiguredTarget("ours", "https://example.com", b"secret", frozenset())]
    )
    answers = ActiveAnswers(house.messages, house.jobs, TokenLog(), TopicNotifier(), house.clock)
    forgetting = UserErasure(database, answers, FileScrubber(database), house.clock, outbox)
    await forgetting.erase_users(TENANT.format("alice"), "alice")
    (delivery,) = await outbox.claim(10)
    told = json.loads(delivery.payload)
    assert (told["type"], told["data"]) == ("user.deleted", {"user_id": "alice"})


async def test_a_database_of_before_is_brought_up_to_date_with_what_is_in_it(database_url: str) -> None:
    before = ChatDatabase(database_url)
    await migrate(before, "0009")
    async with before.write_transaction() as write:
        for statement in (
            "INSERT INTO users (id, tenant, provider, provider_account_id, display_name, created_at)"
            " VALUES ('eve', 'default', 'local', 'eve', 'Eve', 0)",
            "INSERT INTO chats (id, user_id, created_at, modified_at) VALUES ('c', 'eve', 0, 0)",
        ):
            await write.execute(text(statement))
    await migrate(before)
    assert await forgetting_of(House(before)).erase_users("default", "eve") == 2
    await before.aclose()


@pytest.mark.parametrize("goes", ["chat", "conversation", "user"])
async def test_a_thread_may_be_longer_than_cascades_may_be_deep(database: ChatDatabase, goes: str) -> None:
    house = await House(database).open()
    chat = await house.chat()
    row = {"chat_id": chat, "role": "prompter", "state": "manual", "content": "x", "created_at": 0.0}
    ids = [f"m{number:04}" for number in range(1200)]
    rows = [row | {"id": each, "parent_id": before} for each, before in zip(ids, [None, *ids], strict=False)]
    async with database.write_transaction() as write:
        await write.execute(messages.insert(), rows)
    if goes == "chat":
        await ChatStore(database, house.clock, WebhookOutbox(database, house.clock)).delete_chat(
            "user-1", chat
        )
    elif goes == "conversation":
        async with database.write_transaction() as write:
            await write.execute(conversations.insert().values(chat_id=chat, labels={}))
        await ConversationStore(database, house.clock).delete_conversation("user-1", chat)
    else:
        assert await forgetting_of(house).erase_users("default", "user-1") == 1 + 1 + len(ids)
    async with database.read_connection() as read:
        assert (await read.execute(select(messages.c.id))).first() is None
