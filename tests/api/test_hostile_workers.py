"""Workers that are broken, or worse: what one of them says touches its own request, and nobody else's."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from radixway.chat import answer_attempt
from radixway.chat.database_outages import DatabaseUnavailableError
from support.chat_user import ChatUser, login, words
from support.hand_driven_worker import CHAT, HEADERS, KEY, HandDrivenWorker, hand_driven_worker, worker_info
from support.running_gateway import RunningGateway, running_gateway

pytestmark = pytest.mark.usefixtures("chat_stores")

SECRET = "xyzzy-what-was-said"
DEEP = '{"a":' * 50_000 + "1" + "}" * 50_000
SAFE = {"response_type": "safe_prompt", "safe_prompt": "be good"}
END = {"response_type": "generated_text", "text": "Hi"}
STEP = "current_plugin_"


@pytest.fixture
async def eve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatUser]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    limits = {"at_once": 1000, "messages_per_user": 10_000}
    async with running_gateway(chat=CHAT | {"limits": limits}) as gateway:
        yield await login(gateway, "eve")


@pytest.mark.parametrize(
    "bad",
    [
        SAFE | {"safety_parameters": {"level": 2**31}},
        SAFE | {"safety_parameters": {"level": 2**63}},
        SAFE | {"safety_parameters": {"level": -(2**63) - 1}},
        SAFE | {"safe_prompt": "a\x00b", "safety_label": "\x00", "safety_rots": "\x00"},
        {"response_type": "token", "text": "a\x00b"},
        {"response_type": "token", "text": "a", "tokens": -(2**63)},
        {"response_type": "token", "text": "a", "tokens": 2**64},
        {"response_type": "plugin_intermediate", f"{STEP}thought": "\x00", f"{STEP}action_taken": SECRET},
        {"response_type": "error", "error": "a\x00b"},
        END | {"text": "a\x00b"},
        END | {"used_plugin": {"a\x00": ["\x00"]}},
        END | {"used_plugin": "DEEP"},
        END | {"used_plugin": json.loads('{"a":' * 400 + "1" + "}" * 400)},
        END | {"used_plugin": {"a": 10**400}},
        END | {"metrics": {"requests_processed": 2**64}},
        END | {"metrics": {"created_at": "\x00", "gpus": [{"gpu_usage": 1e308}, {"gpu_usage": 1e308}]}},
        {"response_type": "token", "text": "SURROGATE"},
        {"response_type": SECRET * 1000},
    ],
    ids=lambda bad: json.dumps(bad)[:60],
)
async def test_what_one_request_is_told_of_costs_no_other(
    eve: ChatUser, bad: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, second = await eve.asked("one"), await eve.asked("two")
    async with hand_driven_worker(eve.gateway, 2) as worker:
        requests = [await worker.frame(), await worker.frame()]
        by_question = {frame["thread"]["messages"][-1]["content"]: frame["id"] for frame in requests}
        await worker.say(by_question["two"], "Hel")
        frame = json.dumps({"request_id": by_question["one"]} | bad)
        await worker.send(frame.replace('"DEEP"', DEEP).replace("SURROGATE", "\\ud800 "))
        await worker.say(by_question["two"], "lo")
        await worker.finish(by_question["two"], "Hello")
        heard = await eve.heard(second)
        assert words(heard) == "Hello" and heard[-1]["message"]["state"] == "complete"
        await worker.finish(by_question["one"], "whole")
        async with _answering(worker), asyncio.timeout(10):
            heard = await eve.heard(first)
    assert heard[-1]["event_type"] in ("message", "error")
    told = "\n".join(record.getMessage() for record in caplog.records)
    assert SECRET not in told and "unexpectedly" not in told and "could not be saved" not in told
    assert "Traceback" not in caplog.text


@asynccontextmanager
async def _answering(worker: HandDrivenWorker) -> AsyncIterator[None]:
    """Whatever it is asked."""

    async def answer() -> None:
        while True:
            frame = json.loads(await worker.socket.receive_str())
            if frame["request_type"] == "work":
                await worker.finish(frame["id"], "whole")

    answering = asyncio.create_task(answer())
    try:
        yield
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


def _shaped(**more: Any) -> dict[str, Any]:
    info = worker_info()
    info["config"]["model_config"] = info["config"]["model_config"] | more
    return info


BAD_FIRST = [
    _shaped(model_id="a\x00b"),
    _shaped(model_id="m" * 10**6),
    _shaped(max_input_length=2**64),
    worker_info(hardware_info="DEEP"),
    worker_info(hardware_info={"a": "x" * 2_000_000}),
    worker_info(extensions=["x" * 1000] * 1000),
]


@pytest.mark.parametrize("first", BAD_FIRST, ids=lambda first: json.dumps(first)[:60])
@pytest.mark.parametrize("path", ["/workers/work", f"/work?api_key={KEY}&protocol_version=v2"])
async def test_what_a_worker_says_of_itself_keeps_no_others_from_coming(
    eve: ChatUser, path: str, first: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    answer = await eve.asked()
    async with eve.gateway.client.ws_connect(eve.gateway.url + path, headers=HEADERS) as socket:
        worker = HandDrivenWorker(socket)
        await worker.send(json.dumps(first).replace('"DEEP"', DEEP))
        assert await worker.closed() == 1008
    async with hand_driven_worker(eve.gateway) as worker:
        request = await worker.work()
        await worker.finish(request, "Hi")
        assert words(await eve.heard(answer)) in ("", "Hi")
    assert "Traceback" not in caplog.text


class OneThatDoesNotRead:
    """A worker that has registered, and reads nothing of what it is sent then."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    @classmethod
    async def connected(cls, gateway: RunningGateway, first: dict[str, Any]) -> OneThatDoesNotRead:
        opened = socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.setblocking(False)
        url = URL(gateway.url)
        await asyncio.get_running_loop().sock_connect(opened, (url.host, url.port))
        reader, writer = await asyncio.open_connection(sock=opened, limit=1024)
        headers = HEADERS | {"Host": url.authority, "Connection": "Upgrade", "Upgrade": "websocket"}
        headers |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
        lines = ["GET /workers/work HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await reader.readuntil(b"\r\n\r\n")
        said = json.dumps(first).encode()
        writer.write(b"\x81\xfe" + len(said).to_bytes(2, "big") + b"\0\0\0\0" + said)
        await writer.drain()
        return cls(writer)


async def test_one_that_does_not_read_holds_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    config = CHAT | {"workers": {"unread_s": 0.2, "ping_s": 0.1}}
    async with running_gateway(chat=config, gateway={"max_body_bytes": 64 << 20}) as gateway:
        eve = await login(gateway, "eve")
        stuck = await OneThatDoesNotRead.connected(gateway, worker_info())
        answer = await eve.asked("x" * (8 << 20))
        await eve.until(answer, "in_progress")
        await eve.until(answer, "pending")
        stuck.writer.transport.abort()


async def test_a_job_that_nothing_is_said_of_is_tried_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    config = CHAT | {"workers": {"answer_silence_s": 0.3, "ping_s": 0.05}, "attempts": 2}
    async with running_gateway(chat=config) as gateway:
        eve = await login(gateway, "eve")
        answer = await eve.asked()
        async with hand_driven_worker(gateway) as first:
            await first.work()
            async with hand_driven_worker(gateway) as second:
                await second.work()
                heard = await eve.heard(answer)
    assert heard[-1]["event_type"] == "error" and heard[-1]["error"].startswith("The worker has sent nothing")


async def test_an_answer_that_never_ends_is_ended(eve: ChatUser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_attempt, "_MAX_ATTEMPT_BYTES", 50_000)
    answer, other = await eve.asked(), await eve.asked()
    async with hand_driven_worker(eve.gateway, 2, extensions=["cancel"]) as worker:
        await worker.frame()
        endless, request = await worker.work(), await worker.work()
        await worker.say(endless, *["word "] * 1000)
        await worker.finish(request, "Hi")
        heard = await eve.heard(answer)
        assert heard[-1]["event_type"] == "error" and heard[-1]["error"] == answer_attempt.TOO_LONG
        assert heard[-1]["message"]["content"].startswith("word word ")
        assert words(await eve.heard(other)) in ("", "Hi")
        assert (await worker.frame())["request_type"] == "cancel"


async def test_a_worker_that_came_while_the_database_was_away_is_no_ghost(
    eve: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats = eve.gateway.gateway.chats
    assert chats is not None and chats.service is not None
    room = chats.service
    look = room.sessions._renew_and_read

    async def away() -> float:
        raise DatabaseUnavailableError("no")

    monkeypatch.setattr(room.sessions, "_renew_and_read", away)
    async with eve.gateway.client.ws_connect(f"{eve.gateway.url}/workers/work", headers=HEADERS) as lost:
        worker = HandDrivenWorker(lost)
        await worker.send(worker_info())
        assert await worker.closed() == 1013
    monkeypatch.setattr(room.sessions, "_renew_and_read", look)
    await look()
    assert not room.sessions.models
