"""Engines that are broken, or worse: an answer ends, whatever they send, and others go on."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from support.chat_user import login, words
from support.hand_driven_worker import CHAT
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

pytestmark = pytest.mark.usefixtures("chat_stores")

SECRET = "xyzzy-what-was-said"
DEEP = b"[" * 50_000 + b"]" * 50_000


def _event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def _said(content: Any, **more: Any) -> bytes:
    return _event(choices=[{"delta": {"content": content}, "index": 0}], **more)


END = _event(choices=[{"delta": {}, "finish_reason": "stop", "index": 0}]) + b"data: [DONE]\n\n"
STREAMS: dict[str, tuple[bytes, str | None]] = {
    "NUL": (_said("a\x00b") + END, "ab"),
    "a reason that is no text": (
        _said("ab") + _event(choices=[{"delta": {}, "finish_reason": {"a": [1]}}]) + END,
        "ab",
    ),
    "usage that is no usage": (_said("ab") + _event(choices=[], usage="much") + END, "ab"),
    "usage beyond all bounds": (
        _said("ab")
        + _event(choices=[], usage={"prompt_tokens": -5, "completion_tokens": "x", "a": 2**63})
        + END,
        "ab",
    ),
    "a reason with NUL": (
        _said("ab") + _event(choices=[{"delta": {}, "finish_reason": "\x00" * 99}]) + END,
        "ab",
    ),
    "words that are none": (_said({"a": SECRET}) + END, None),
    "deep": (b"data: " + DEEP + b"\n\n" + END, None),
    "no JSON": (b"data: {" + SECRET.encode() + b"\n\n", None),
    "half a surrogate": (b'data: {"choices": [{"delta": {"content": "\\ud800"}}]}\n\n' + END, None),
    "no done": (_said("ab"), None),
}


@pytest.mark.parametrize("name", STREAMS)
async def test_an_answer_ends_whatever_its_engine_streams(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    caplog.set_level(logging.INFO)
    stream, content = STREAMS[name]

    async def behave(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(stream)
        await exchange.end_stream()

    async with (
        scripted_worker(behave) as engine,
        running_gateway(engine.url, chat=CHAT | {"attempts": 2}) as gateway,
    ):
        eve = await login(gateway, "eve")
        answer = await eve.asked()
        heard = await eve.heard(answer)
        if content is None:
            assert heard[-1]["event_type"] == "error", heard
        else:
            assert words(heard) == content and heard[-1]["message"]["content"] == content
        path = f"/v1/chats/{answer['chat_id']}/messages/{answer['id']}"
        assert (await eve.call("GET", path))[0] == 200
        assert (await eve.call("GET", f"/v1/chats/{answer['chat_id']}"))[0] == 200
    told = "\n".join(record.getMessage() for record in caplog.records)
    assert SECRET not in caplog.text and "defect" not in told


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"<html>hello</html>", "text/html"),
        (200, DEEP, "application/json"),
        (500, b"<html>no</html>", "text/html"),
        (500, DEEP, "application/json"),
        (200, b'{"choices": 5}', "application/json"),
        (200, b"", "application/json"),
    ],
)
async def test_an_answer_ends_whatever_its_engine_says(
    status: int,
    body: bytes,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))

    async def behave(exchange: Exchange) -> None:
        await exchange.reply(status, body, kind)

    async with (
        scripted_worker(behave) as engine,
        running_gateway(engine.url, chat=CHAT | {"attempts": 2}) as gateway,
    ):
        eve = await login(gateway, "eve")
        heard = await eve.heard(await eve.asked())
        assert heard[-1]["event_type"] == "error"
    assert "defect" not in caplog.text and "Traceback" not in caplog.text
