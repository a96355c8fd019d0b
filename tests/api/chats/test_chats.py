"""Chats over HTTP, answered by the gateway's own workers."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import BaseModel

from radixway.api.chats.chats import digest_body
from radixway.chat.database import ChatDatabase
from radixway.chat.database_outages import DatabaseUnavailableError
from support import chat_user
from support.chat_user import ChatUser
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

pytestmark = pytest.mark.usefixtures("chat_stores")


class User(ChatUser):
    """Who looks at the ids of events, too."""

    async def heard_with_ids(
        self, answer: dict[str, Any], after: int = 0
    ) -> list[tuple[int | None, dict[str, Any]]]:
        """Every event, with its id."""
        path = f"/chats/{answer['chat_id']}/messages/{answer['id']}/events"
        headers = self.headers | ({"Last-Event-ID": str(after)} if after else {})
        async with self.gateway.client.get(self.gateway.url + path, headers=headers) as response:
            assert response.status == 200 and response.content_type == "text/event-stream"
            return _events(await response.text())


def _events(text: str) -> list[tuple[int | None, dict[str, Any]]]:
    found = []
    for block in text.split("\r\n\r\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\r\n") if ": " in line)
        if "data" in fields:
            found.append((int(fields["id"]) if "id" in fields else None, json.loads(fields["data"])))
    return found


async def talk(exchange: Exchange) -> None:
    """An answer of four words, streamed."""
    await exchange.begin_stream()
    for word in ("A ", "radix ", "tree", "."):
        event = {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    await exchange.chunk(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


@pytest.fixture
async def worker() -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(talk) as worker:
        yield worker


@pytest.fixture
async def eve(worker: ScriptedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[User]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(worker.url, chat={"allow_debug_auth": True}) as gateway:
        yield await login(gateway, "eve")


async def login(gateway: RunningGateway, name: str) -> User:
    known = await chat_user.login(gateway, name)
    return User(gateway, known.headers["Authorization"].removeprefix("Bearer "))


async def test_an_answer_is_heard_by_all_whenever_they_come(eve: User) -> None:
    answer = await eve.asked()
    assert answer["state"] == "pending" and answer["content"] is None
    early = await asyncio.gather(*(eve.heard_with_ids(answer) for _ in range(3)))
    late = await eve.heard_with_ids(answer)
    told = [[event for event in heard if event[1]["event_type"] != "pending"] for heard in (*early, late)]
    assert all(heard == told[0] for heard in told)
    tokens = [event["text"] for _, event in late if event["event_type"] == "token"]
    assert late[-1][1]["message"]["content"] == "".join(tokens) == "A radix tree."
    assert await eve.heard_with_ids(answer, after=2) == late[2:]
    _, chat = await eve.call("GET", f"/chats/{answer['chat_id']}")
    assert [message["state"] for message in chat["messages"]] == ["manual", "complete"]
    assert chat["title"] == "hello"


async def test_an_answer_is_streamed_at_once_where_that_is_accepted_and_not_when_it_is_forgotten(
    worker: ScriptedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    given = {"allow_debug_auth": True, "kept_s": 0.01}
    async with running_gateway(worker.url, chat=given) as gateway:
        eve = await login(gateway, "eve")
        _, chat = await eve.call("POST", "/chats", {})
        path = f"/chats/{chat['id']}"
        _, said = await eve.call("POST", f"{path}/prompter_message", {"content": "hello"})
        body = {"parent_id": said["id"], "model_config_name": "m"}
        headers = eve.headers | {"Accept": "text/event-stream", "Idempotency-Key": "once"}

        async def ask() -> tuple[int, str]:
            url = f"{gateway.url}{path}/assistant_message"
            async with gateway.client.post(url, json=body, headers=headers) as response:
                return response.status, await response.text()

        status, text = await ask()
        assert status == 200 and _events(text)[-1][1]["message"]["content"] == "A radix tree."
        async with asyncio.timeout(60):
            while (again := await ask())[0] == 200:
                assert _events(again[1])[-1][1]["message"] == _events(text)[-1][1]["message"]
        assert again == (204, "")


async def test_what_is_anothers_is_not_found(eve: User) -> None:
    answer = await eve.asked()
    mallory = await login(eve.gateway, "mallory")
    path = f"/chats/{answer['chat_id']}"
    for method, place, body in (
        ("GET", path, None),
        ("PUT", path, {"title": "mine"}),
        ("DELETE", path, None),
        ("POST", f"{path}/prompter_message", {"parent_id": answer["id"], "content": "x"}),
        ("POST", f"{path}/assistant_message", {"parent_id": answer["parent_id"], "model_config_name": "m"}),
        ("GET", f"{path}/messages/{answer['id']}", None),
        ("GET", f"{path}/messages/{answer['id']}/events", None),
        ("POST", f"{path}/messages/{answer['id']}/votes", {"score": 1}),
        ("POST", f"{path}/messages/{answer['id']}/reports", {"report_type": "spam", "reason": ""}),
        ("POST", f"{path}/messages/{answer['id']}/message_evals", {"inferior_message_ids": []}),
    ):
        assert (await mallory.call(method, place, body))[0] == 404, (method, place)
    assert (await mallory.call("GET", "/chats"))[1]["chats"] == []


async def test_debug_login_is_off_unless_switched_on(
    worker: ScriptedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(worker.url) as gateway:
        assert (await gateway.get("/auth/callback/debug?code=eve"))[0] == 403
        assert await gateway.get("/auth/providers") == (200, [])


async def test_an_answer_under_way_outlives_its_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(chat={"allow_debug_auth": True, "models": [MODEL]}) as gateway:
        eve = await login(gateway, "eve")
        answer = await eve.asked()
    async with scripted_worker(talk) as worker, running_gateway(worker.url) as gateway:
        heard = await User(gateway, eve.headers["Authorization"].split()[1]).heard_with_ids(answer)
        assert heard[-1][1]["message"]["state"] == "complete"


MODEL = {"name": "m", "model_id": "m", "max_input_length": 8192, "max_total_length": 16384}


async def test_bad_input_names_its_field(eve: User) -> None:
    asked = {"parent_id": "a", "model_config_name": "m"}

    def plugin(config: Any) -> dict[str, Any]:
        return asked | {"plugins": [{"url": "x", "plugin_config": config}]}

    _, chat = await eve.call("POST", "/chats", "")
    for path, body, field in (
        ("prompter_message", {"content": "x", "parent_id": 5}, "parent_id"),
        ("prompter_message", {"parent_id": None}, "content"),
        ("prompter_message", "no object", "body"),
        ("prompter_message", {"parent_id": None, "content": "a\0b"}, "content"),
        ("prompter_message", {"parent_id": None, "content": "\ud800"}, "content"),
        ("assistant_message", asked | {"plugins": 3}, "plugins"),
        ("assistant_message", asked | {"sampling_parameters": {"top_p": 7}}, "top_p"),
        ("assistant_message", asked | {"sampling_parameters": {"temperature": math.inf}}, "temperature"),
        ("assistant_message", asked | {"sampling_parameters": {"top_k": 10**30}}, "top_k"),
        ("assistant_message", plugin({"a": math.nan}), "plugin_config"),
        ("assistant_message", plugin({"a": "\ud800"}), "plugin_config"),
        ("assistant_message", asked | {"system_prompt": "\ud800"}, "system_prompt"),
        ("messages/x/message_evals", {"inferior_message_ids": ["\ud800"]}, "inferior_message_ids"),
    ):
        status, told = await eve.call("POST", f"/chats/{chat['id']}/{path}", body)
        assert status == 422 and field in told["detail"][0]["loc"], (path, body)


async def test_addresses_that_cannot_be_are_not_found(eve: User) -> None:
    answer = await eve.asked()
    for path in ("/chats/%00", "/chats/a%00b/messages/x", "/chats/%ED%A0%80", f"/chats/{'a' * 5000}"):
        assert (await eve.call("GET", path))[0] == 404, path
    events = f"/chats/{answer['chat_id']}/messages/{answer['id']}/events"
    for position in ("-1", "1e3", "²", "9" * 30):
        async with eve.gateway.client.get(
            eve.gateway.url + events, headers=eve.headers | {"Last-Event-ID": position}
        ) as response:
            assert response.status in (200, 400), position
    for cursor in ("x", "AA==", "/w=="):
        assert (await eve.call("GET", f"/chats?after={cursor}"))[0] == 400, cursor


async def test_without_a_token_nobody_gets_in(eve: User) -> None:
    async with aiohttp.ClientSession() as client:
        for headers, status in (
            ({}, 403),
            ({"Authorization": "abc"}, 403),
            ({"Authorization": "Bearer abc"}, 401),
        ):
            async with client.get(f"{eve.gateway.url}/chats", headers=headers) as response:
                assert response.status == status


async def test_health_tells_whether_chats_are_open_and_over_what_processes_hear_of_each_other(
    eve: User, request: pytest.FixtureRequest
) -> None:
    _, health = await eve.gateway.get("/health")
    over = "files" if request.node.callspec.params["chat_stores"] == "sqlite" else "valkey"
    assert health["chats"] == {"open": True, "shared": {"over": over, "problem": None}}


async def test_a_database_that_is_away_is_told_as_such_and_when_to_come_back(
    eve: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def away(_: ChatDatabase) -> AsyncIterator[None]:
        raise DatabaseUnavailableError("it is away")
        yield

    for way in ("read_connection", "write_transaction"):
        monkeypatch.setattr(ChatDatabase, way, away)
    async with eve.gateway.client.post(f"{eve.gateway.url}/chats", json={}, headers=eve.headers) as response:
        assert response.status == 503 and response.headers["Retry-After"] == "1"
        assert await response.json() == {"detail": "The database does not answer"}


def test_a_field_that_a_later_version_adds_makes_no_other_call_of_a_repeated_one() -> None:
    class Now(BaseModel):
        content: str
        answer: bool = True

    class Later(Now):
        tone: str | None = None

    now = digest_body("say", Now(content="hello"), "key")
    assert digest_body("say", Later(content="hello", answer=True), "key") == now
    assert digest_body("say", Later(content="hello", tone="kind"), "key") != now
