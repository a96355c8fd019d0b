"""Webhooks, brought to a real receiver."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from radixway.chat.accounts import UserAccounts
from radixway.chat.chats import ChatStore
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError, InvalidFieldError
from radixway.chat.job_queue import AnswerJobQueue
from radixway.chat.schema import deliveries
from radixway.chat.server_secrets import ServerSecrets
from radixway.chat.webhooks import (
    ConfiguredTarget,
    WebhookDeliverer,
    WebhookEvent,
    WebhookOutbox,
    WebhookStore,
    read_secret,
)
from radixway.core.net import AddressAllowlist, UrlFetcher
from support.chat_house import USER, House
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

SECRETS = ServerSecrets("a secret", "a salt", "root")


@dataclass
class Receiver:
    """Answers as it is told to, and keeps what it was sent."""

    statuses: list[int] = field(default_factory=list)
    """Of the next answers; then 200."""
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    at_once: int = 0
    most_at_once: int = 0

    async def __call__(self, exchange: Exchange) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        status = self.statuses.pop(0) if self.statuses else 200
        await exchange.reply(status, b"{}")
        self.at_once -= 1
        async with self.arrived:
            self.heard.append((exchange.headers, exchange.body))
            self.arrived.notify_all()

    async def until(self, count: int) -> list[dict]:
        """Bodies of all that was sent, once there are so many."""
        async with asyncio.timeout(20), self.arrived:
            await self.arrived.wait_for(lambda: len(self.heard) >= count)
        return [json.loads(body) for _, body in self.heard]


class Mail:
    """A house whose events are told."""

    def __init__(
        self, house: House, *fixed: ConfiguredTarget, retries_s: tuple[float, ...] = (5.0, 60.0)
    ) -> None:
        self.house, self.database, clock = house, house.database, house.clock
        allowed = AddressAllowlist(["127.0.0.0/8"])
        self.outbox = WebhookOutbox(self.database, clock, fixed)
        self.hooks = WebhookStore(
            self.database, clock, SECRETS, self.outbox, allowed, max_per_user=3, http=True
        )
        self.chats = ChatStore(self.database, clock, self.outbox)
        house.messages._ends.hooks = [self.outbox.answer_ended]
        house.jobs = AnswerJobQueue(self.database, clock, ends=house.messages._ends)
        self.fetcher = UrlFetcher(allowed)
        self.deliverer = WebhookDeliverer(
            self.outbox, self.hooks, self.fetcher, clock, timeout_s=5, retries_s=retries_s, kept_s=100
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.deliverer.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def wait_passes(self, seconds: float) -> None:
        self.house.clock.now += seconds
        self.outbox.on_news()

    async def until(self, states: list[str]) -> None:
        """Wait for what is left in the outbox to be so."""
        async with asyncio.timeout(20):
            while await self.left() != states:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def left(self) -> list[str]:
        async with self.database.read_connection() as read:
            rows = await read.execute(deliveries.select().order_by(deliveries.c.number))
            return [f"{row.state} {row.attempts} {row.last_error}" for row in rows]


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
async def server(receiver: Receiver) -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(receiver) as server:
        yield server


@pytest.fixture
async def mail(database: ChatDatabase) -> Mail:
    return Mail(await House(database).open())


def check(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """As receivers do it, by the specification's own words."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{wanted}" in headers["webhook-signature"].split(" ")


async def test_what_happens_in_a_chat_is_told_signed_and_in_order(
    mail: Mail, receiver: Receiver, server: ScriptedWorker
) -> None:
    _, secret = await mail.hooks.add(USER, server.url + "/hook", [])
    chat = (await mail.chats.create_chat(USER)).id
    said = await mail.house.messages.write_question(USER, chat, None, "What is a radix tree?")
    answer = await mail.house.asked()
    job = await mail.house.jobs.claim_job(["q"], "owner")
    assert job is not None
    await mail.house.jobs.finish_job(job.attempt_id, "A trie.", usage={"total_tokens": 7})
    await mail.chats.delete_chat(USER, chat)
    async with mail.running():
        told = await receiver.until(3)
        await mail.until([])
    created, deleted = [each for each in told if each["data"]["chat_id"] == chat]
    assert (created["type"], deleted["type"]) == ("chat.created", "chat.deleted")
    (completed,) = [each for each in told if each["type"] == "answer.completed"]
    assert completed["data"]["message_id"] == answer.id and completed["data"]["usage"] == {"total_tokens": 7}
    assert completed["timestamp"] == "1970-01-12T13:46:40.000000Z"
    assert all(check(secret, *heard) for heard in receiver.heard)
    assert not check(secret, receiver.heard[0][0], b"{}")
    assert len({headers["webhook-id"] for headers, _ in receiver.heard}) == 3
    for words in (b"trie", b"radix tree", said.id.encode()):
        assert not any(words in body for _, body in receiver.heard)


async def test_what_does_not_come_to_be_is_not_told(
    mail: Mail, receiver: Receiver, server: ScriptedWorker
) -> None:
    await mail.hooks.add(USER, server.url, [])
    with pytest.raises(RuntimeError):
        async with mail.database.write_transaction() as write:
            await mail.outbox.put(write, USER, WebhookEvent("chat.created", "never"))
            raise RuntimeError
    assert await mail.left() == []
    assert not mail.deliverer._news.is_set()


async def test_what_is_refused_is_tried_again_and_later_events_of_its_chat_wait(
    mail: Mail, receiver: Receiver, server: ScriptedWorker
) -> None:
    await mail.hooks.add(USER, server.url, [])
    receiver.statuses = [500]
    chat = (await mail.chats.create_chat(USER)).id
    await mail.chats.delete_chat(USER, chat)
    async with mail.running():
        await receiver.until(1)
        await mail.until(["waiting 1 answered 500", "waiting 0 None"])
        await mail.wait_passes(6.1)
        told = await receiver.until(3)
        await mail.until([])
    assert [each["type"] for each in told] == ["chat.created", "chat.created", "chat.deleted"]
    (first, _), (again, _), _ = receiver.heard
    assert first["webhook-id"] == again["webhook-id"]


async def test_what_nobody_takes_is_given_up_kept_for_a_while_and_can_be_tried_again(
    mail: Mail, receiver: Receiver, server: ScriptedWorker
) -> None:
    hook, _ = await mail.hooks.add(USER, server.url, ["chat.created"])
    receiver.statuses = [302, 404, 503]
    await mail.chats.create_chat(USER)
    async with mail.running():
        await mail.until(["waiting 1 answered 302"])
        await mail.wait_passes(6.1)
        await mail.until(["waiting 2 answered 404"])
        await mail.wait_passes(72.1)
        await mail.until(["given_up 3 answered 503"])
        (known,) = await mail.hooks.undelivered(USER, hook.id)
        assert known.last_error == "answered 503"
        await mail.hooks.retry(USER, hook.id, known.id)
        await mail.until([])
    assert len(receiver.heard) == 4
    assert (await mail.hooks.find(USER, hook.id)).delivered_at == mail.house.clock.now


async def test_records_of_what_was_given_up_are_forgotten(
    mail: Mail, receiver: Receiver, server: ScriptedWorker
) -> None:
    await mail.hooks.add(USER, server.url, [])
    receiver.statuses = [410]
    await mail.chats.create_chat(USER)
    async with mail.running():
        await mail.until(["given_up 1 answered 410"])
    mail.house.clock.now += 101
    await mail.outbox.forget(100)
    assert await mail.left() == []


async def test_a_receiver_that_is_gone_is_told_nothing_more(
    mail: Mail, receiver: Receiver, server: ScriptedWorker
) -> None:
    hook, _ = await mail.hooks.add(USER, server.url, [])
    receiver.statuses = [410]
    await mail.chats.create_chat(USER)
    async with mail.running():
        await mail.until(["given_up 1 answered 410"])
    assert not (await mail.hooks.find(USER, hook.id)).enabled
    await mail.chats.create_chat(USER)
    assert len(await mail.left()) == 1


async def test_addresses_that_are_not_public_are_never_called(
    mail: Mail, receiver: Receiver, server: ScriptedWorker
) -> None:
    await mail.hooks.add(USER, server.url.replace("127.0.0.1", "localhost"), [])
    mail.deliverer._fetcher = UrlFetcher(AddressAllowlist())
    await mail.chats.create_chat(USER)
    async with mail.running():
        await mail.until(["waiting 1 localhost is not a public address"])
    assert not receiver.heard


@pytest.mark.parametrize(
    "url", ["ftp://a.b/", "http://10.0.0.1/", "http://[::1]/", "http://eve:pw@a.b/", "not a url", "http:///x"]
)
async def test_what_can_never_be_called_is_refused_at_once(mail: Mail, url: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        await mail.hooks.add(USER, url, [])
    assert refused.value.field == "url" and "pw" not in str(refused.value)


async def test_several_processes_tell_each_event_once(
    database: ChatDatabase, database_url: str, receiver: Receiver, server: ScriptedWorker
) -> None:
    one = Mail(await House(database).open())
    others = [Mail(House(ChatDatabase(database_url), clock=one.house.clock)) for _ in range(2)]
    await one.hooks.add(USER, server.url, [])
    for _ in range(12):
        await one.chats.delete_chat(USER, (await one.chats.create_chat(USER)).id)
    async with one.running(), others[0].running(), others[1].running():
        await receiver.until(24)
        await one.until([])
    assert len({headers["webhook-id"] for headers, _ in receiver.heard}) == 24 == len(receiver.heard)
    for other in others:
        await other.database.aclose()


async def test_what_a_process_had_in_hand_when_it_died_is_told_by_another(
    mail: Mail, receiver: Receiver, server: ScriptedWorker
) -> None:
    await mail.hooks.add(USER, server.url, [])
    await mail.chats.create_chat(USER)
    (dead,) = await mail.outbox.claim(10)
    assert await mail.outbox.claim(10) == []
    async with mail.running():
        await mail.wait_passes(61)
        await receiver.until(1)
        await mail.until([])
    await mail.outbox.failed(dead, "too late", None, 5.0)
    assert await mail.left() == []


async def test_a_new_secret_is_joined_by_the_old_one_for_a_day(
    mail: Mail, receiver: Receiver, server: ScriptedWorker
) -> None:
    hook, old = await mail.hooks.add(USER, server.url, [])
    _, new = await mail.hooks.rotate(USER, hook.id)
    assert old != new
    await mail.chats.create_chat(USER)
    async with mail.running():
        await receiver.until(1)
        assert check(old, *receiver.heard[0]) and check(new, *receiver.heard[0])
        mail.house.clock.now += 86_401
        await mail.chats.create_chat(USER)
        await receiver.until(2)
        assert not check(old, *receiver.heard[1]) and check(new, *receiver.heard[1])


async def test_configured_targets_hear_of_every_user_and_outlive_them(
    database: ChatDatabase, receiver: Receiver, server: ScriptedWorker
) -> None:
    secret = base64.b64encode(b"s" * 24).decode()
    fixed = ConfiguredTarget(
        "audit", server.url, read_secret("whsec_" + secret), frozenset(["chat.created", "user.deleted"])
    )
    mail = Mail(await House(database).open(), fixed)
    chat = await mail.chats.create_chat(USER)
    await mail.chats.update_chat(USER, chat.id, title="not asked for")
    async with mail.running():
        await receiver.until(1)
        await mail.until([])
        await UserAccounts(database, mail.house.clock, mail.outbox).delete_user(USER, with_chats=True)
        told = await receiver.until(2)
    assert [each["type"] for each in told] == ["chat.created", "user.deleted"]
    assert told[1]["data"] == {"user_id": USER}
    assert check(secret, *receiver.heard[1])


async def test_a_user_s_webhooks_go_with_them_and_are_nobody_else_s(
    mail: Mail, server: ScriptedWorker
) -> None:
    hook, _ = await mail.hooks.add(USER, server.url, [])
    await mail.chats.create_chat(USER)
    for step in (
        mail.hooks.find("eve", hook.id),
        mail.hooks.remove("eve", hook.id),
        mail.hooks.test("eve", hook.id),
    ):
        with pytest.raises(ChatNotFoundError):
            await step
    await UserAccounts(mail.database, mail.house.clock, mail.outbox).delete_user(USER)
    assert await mail.hooks.of(USER) == [] and await mail.left() == []


async def test_there_are_only_so_many(mail: Mail, server: ScriptedWorker) -> None:
    for _ in range(3):
        await mail.hooks.add(USER, server.url, [])
    with pytest.raises(InvalidFieldError, match="3 webhooks"):
        await mail.hooks.add(USER, server.url, [])


@pytest.mark.parametrize("told", ["", "whsec_", "whsec_hush hush", "whsec_" + "aGk="])
def test_secrets_that_are_none_are_refused_without_a_word_of_them(told: str) -> None:
    with pytest.raises(ValueError, match="base64 of 24") as refused:
        read_secret(told)
    assert "hush" not in str(refused.value)
