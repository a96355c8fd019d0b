"""Everything of a user, told and forgotten over HTTP; the files are searched for what is left."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from radixway.api.chats.app import build_chat_app
from radixway.chat.service import ChatService
from radixway.cli import app
from radixway.core.config import ChatConfig
from radixway.core.pipeline import Reply, Request
from support.chatting import Chatter, login
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, answer_ok, scripted_worker

MARK = "Zq7Wv{}"
"""In everything that somebody of that name says, does and is told."""


class Model:
    """Says what it was told, and stops in the middle when it is told to."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path != "/v1/chat/completions":
            await exchange.reply(404, b"{}")
            return
        said = exchange.json()["messages"][-1]["content"]
        if not exchange.json().get("stream"):
            await answer_ok(exchange)
            return
        await exchange.begin_stream()
        delta = {"choices": [{"index": 0, "delta": {"content": f"You said {said}"}, "finish_reason": None}]}
        await exchange.chunk(b"data: " + json.dumps(delta).encode() + b"\n\n")
        if "for ever" in said:
            self.begun.set()
            await exchange.until_peer_leaves()
            self.left.set()
            return
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()


@pytest.fixture
async def model() -> AsyncIterator[tuple[Model, ScriptedWorker]]:
    answers = Model()
    async with scripted_worker(answers) as worker:
        yield answers, worker


@pytest.fixture
async def gateway(
    model: tuple[Model, ScriptedWorker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningGateway]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    log = logging.FileHandler(tmp_path / "gateway.log")
    ours = ("radixway", "uvicorn.error", "asyncio")  # those that `configure_logging` lets speak
    loggers = [logging.getLogger(name) for name in ours]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        logger.addHandler(log)
    try:
        async with running_gateway(
            model[1].url,
            chat={"allow_debug_auth": True, "webhooks": {"allowed_networks": ["127.0.0.0/8"]}},
            guard={"audit": {"path": str(tmp_path / "audit")}},
            trajectories={"sessions": {"path": str(tmp_path / "sessions.sqlite")}},
        ) as running:
            yield running
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeHandler(log)
            logger.setLevel(level)
        log.close()


async def do_everything(user: Chatter, mark: str) -> dict[str, str]:
    """Leave something in every place there is for it; the paths of what was made."""
    await user.call("POST", "//chats", {})
    chat = await user.chat(title=f"title {mark}", tags=[f"tag {mark}"])
    asked = {
        "model": "m",
        "system_prompt": f"system {mark}",
        "user_profile": f"profile {mark}",
        "user_response_instructions": f"wish {mark}",
    }
    turn = await user.ask(chat, f"content {mark}", key=f"key {mark}", **asked)
    answer = f"//chats{chat}/messages/{turn['answer']['id']}"
    report = {"report_type": "feedback", "reason": f"reason {mark}"}
    assert (await user.call("POST", f"{answer}/reports", report))[0] == 200
    assert (await user.call("POST", f"{answer}/votes", {"score": 1}))[0] == 200
    other = await user.call("POST", f"{chat}/messages/{turn['answer']['id']}/regenerate", {})
    evaluation = {"inferior_message_ids": [other[1]["id"] if "id" in other[1] else other[1]["answer"]["id"]]}
    assert (await user.call("POST", f"{answer}/message_evals", evaluation))[0] == 200
    status, shared = await user.call("POST", f"{chat}/shares", {})
    assert status == 201
    hook = {"url": f"https://127.0.0.1:9/hook%20{mark}", "events": ["answer.cancelled"]}
    status, made = await user.call("POST", "//v1/webhooks", hook)
    assert status == 201, made
    response = {"model": "m", "input": f"input {mark}", "instructions": f"instructions {mark}"}
    status, answered = await user.call("POST", "//v1/responses", response)
    assert status == 200, answered
    status, told = await user.call("GET", "/export")
    assert status == 200
    assert (await user.call("POST", "/import", told.encode()))[0] == 201
    return {"chat": chat, "share": f"/shared/{shared['token']}"}


def files_of(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


async def all_of(user: Chatter) -> list[dict[str, Any]]:
    """Their export, but for the time of it."""
    status, told = await user.call("GET", "//v1/account/export")
    assert status == 200
    lines = [json.loads(line) for line in told.splitlines()]
    assert lines[0]["format"] == "radixway account"
    return lines[1:]


async def test_who_leaves_with_all_they_have_leaves_no_trace_and_takes_nothing_of_others(
    gateway: RunningGateway, model: tuple[Model, ScriptedWorker], tmp_path: Path
) -> None:
    ann, bob = [await login(gateway, MARK.format(name)) for name in ("ann", "bob")]
    anns, bobs = [await do_everything(user, MARK.format(name)) for user, name in ((ann, "ann"), (bob, "bob"))]
    mark = MARK.format("ann").encode()
    before = await asyncio.to_thread(files_of, tmp_path)
    assert all(f"{what} ".encode() + mark in before for what in PLANTED)
    told = {line["table"] for line in await all_of(ann)}
    assert told == {
        *("users", "rates", "refresh_tokens", "webhooks", "chats", "chat_tags", "messages", "shares"),
        *("reports", "evaluations", "responses", "question_items"),
    }
    bob_before = await all_of(bob)
    endless = {"content": "go on for ever", "reply": "later"}
    assert (await ann.call("POST", f"{anns['chat']}/messages", endless))[0] < 300
    await asyncio.wait_for(model[0].begun.wait(), 10)

    status, erased = await ann.call("DELETE", "//v1/account")

    assert (status, erased["complete"]) == (200, True), erased
    assert erased["rooms"]["chats"]["status"] == "erased" and erased["rooms"]["chats"]["entries"] > 10
    await asyncio.wait_for(model[0].left.wait(), 10)
    after = await asyncio.to_thread(files_of, tmp_path)
    assert mark not in after
    assert (await ann.call("GET", ""))[0] == 401
    assert (await bob.call("GET", anns["share"]))[0] == 404
    assert await all_of(bob) == bob_before
    assert (await ann.call("GET", bobs["share"]))[0] == 200
    assert all(f"{what} ".encode() + MARK.format("bob").encode() in after for what in PLANTED)


PLANTED = ("title", "tag", "content", "key", "reason", "system", "profile", "wish", "input")


async def test_the_one_call_that_forgets_a_tenants_user_reaches_chats_too(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    ann = await login(gateway, MARK.format("ann"))
    await do_everything(ann, MARK.format("ann"))
    result = await asyncio.to_thread(
        CliRunner().invoke,
        app,
        ["erase", "--tenant", "default", "--user", MARK.format("ann"), "--url", gateway.url],
    )
    assert result.exit_code == 0 and "chats: erased" in result.output, result.output
    assert MARK.format("ann").encode() not in await asyncio.to_thread(files_of, tmp_path)
    assert (await login(gateway, MARK.format("ann"))).headers != ann.headers


async def test_marked_as_deleted_chats_stay_till_they_are_erased(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    ann = await login(gateway, "ann")
    chat = await ann.chat(title=MARK.format("ann"))
    assert (await ann.call("DELETE", "//account/"))[0] == 200
    assert (await ann.call("GET", chat))[0] == 401
    assert (await ann.call("GET", "//v1/account/export"))[0] == 401
    assert MARK.format("ann").encode() in await asyncio.to_thread(files_of, tmp_path)
    status, told, _ = await gateway.post("/admin/erase", {"tenant": "default", "user": "ann"})
    assert status == 200 and told["rooms"]["chats"]["entries"] >= 2
    assert MARK.format("ann").encode() not in await asyncio.to_thread(files_of, tmp_path)


async def test_only_the_administrator_is_told_of_others(gateway: RunningGateway, tmp_path: Path) -> None:
    ann = await login(gateway, "ann")
    await ann.chat(title="Trees")
    assert (await ann.call("GET", "//admin/users/ann/export"))[0] == 403
    root = json.loads((tmp_path / "chat-secrets.json").read_text())["root_token"]
    headers = {"Authorization": f"Bearer {root}"}
    async with gateway.client.get(f"{gateway.url}/admin/users/ann/export", headers=headers) as response:
        assert response.status == 200
        lines = (await response.text()).splitlines()
    assert [json.loads(line) for line in lines][1:] == await all_of(ann)
    status, _ = await gateway.get("/admin/users/nobody/export", headers=headers)
    assert status == 404


async def test_who_writes_as_they_are_erased_is_told_so(tmp_path: Path) -> None:
    room = ChatService(ChatConfig(), tmp_path, pipeline=_no_road, served=tuple)
    app_of_chats = build_chat_app(room)

    @app_of_chats.post("/as-somebody-who-was-let-in-before")
    async def create() -> None:
        await room.chats.create_chat("gone")

    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    path = "/as-somebody-who-was-let-in-before"
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    async with room.running():
        await app_of_chats(scope | {"server": ("here", 80)}, receive, send)
    assert sent[0]["status"] == 409 and json.loads(sent[1]["body"]) == {"detail": "Deleted meanwhile"}


async def _no_road(_: Request) -> Reply:
    raise AssertionError


@pytest.mark.parametrize("asked_by", ["themselves", "the administrator"])
async def test_a_tenants_key_and_their_chats_are_the_same_users(
    asked_by: str, model: tuple[Model, ScriptedWorker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    keys = [{"key": f"acme-{name}-key", "user": name} for name in ("ann", "bob")]
    sections = {"tenants": {"acme": {"keys": keys}}, "gateway": {"admin_key": "the-admins-own-key"}}
    async with running_gateway(model[1].url, **sections) as gateway:
        ann, bob = (Chatter(gateway, f"acme-{name}-key") for name in ("ann", "bob"))
        for user in (ann, bob):
            await user.ask(await user.chat(), "in a chat", model="m")
            body = {"model": "m", "messages": [{"role": "user", "content": "outside of any"}]}
            assert (await user.call("POST", "//v1/chat/completions", body))[0] == 200
        if asked_by == "themselves":
            status, erased = await ann.call("DELETE", "//v1/account")
        else:
            admin = {"authorization": "Bearer the-admins-own-key"}
            status, erased, _ = await gateway.post(
                "/admin/erase", {"tenant": "acme", "user": "ann"}, headers=admin
            )
        assert status == 200, erased
        rooms = {name: room["entries"] for name, room in erased["rooms"].items()}
        assert rooms["chats"] >= 4 and rooms["journals"] == 1
        assert (await ann.call("GET", ""))[1]["chats"] == []
        assert len((await bob.call("GET", ""))[1]["chats"]) == 1
