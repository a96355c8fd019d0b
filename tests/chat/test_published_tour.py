"""The recorded calls to the published service, made to ours: equal statuses and shapes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker

pytestmark = pytest.mark.usefixtures("chat_stores")

TOUR = Path(__file__).parents[1] / "data" / "oasst" / "http_tour.jsonl"
LOREM = {"name": "_lorem", "model_id": "_lorem", "max_input_length": 128, "max_total_length": 256}

STATUSES: dict[str, tuple[int, str]] = {
    "refresh": (200, "refreshing works"),
    "refresh missing": (422, "500 there"),
    "discord not configured": (404, "500 there"),
    "trusted garbage": (401, "500 there"),
    "web_retriever call": (400, "500 there; ours does not fetch what is not public"),
    "worker sessions (no auth!)": (401, "what hardware there is is told to the administrator alone"),
    "assistant before prompt (bad parent)": (404, "500 there"),
    "prompt in other user's chat": (404, "500 there"),
    "events after finish": (200, "what was said is told again while it is kept"),
    "get message other user": (404, "500 there"),
    "get message unknown": (404, "500 there"),
    "vote 2": (422, "500 there"),
    "vote other user": (404, "500 there"),
    "vote on prompter": (400, "500 there"),
    "update other user": (404, "500 there"),
    "both cursors": (400, "500 there"),
    "hide_all no body": (200, "unreachable there"),
    "hide_all with {}": (200, "unreachable there"),
    "deleted user still lists chats": (401, "who was deleted has no access any more"),
}
"""Where ours differ, by the note of the call, and why."""

SHAPES: dict[str, str] = {
    "model_name": "the overview names it in every message",
    "active_thread_tail_message_id": "null in the published lists, whatever it is",
}
"""Keys whose types may differ, or that may be more, and why."""

ELSEWHERE: dict[str, str] = {
    "metrics": "the gateway's own",
    "root": "the gateway's own",
}
"""Calls that are left out, and why."""


@dataclass
class Guide:
    """Makes the recorded calls; what was called one thing there and is called another here is noted."""

    gateway: RunningGateway
    names: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, dict[str, str]] = field(default_factory=dict)
    latest: str = ""

    async def make(self, note: str, call: dict[str, Any]) -> tuple[int, Any]:
        headers = {"Accept": call.get("accept", "*/*")}
        headers |= {name: self._header(note, name, text) for name, text in call.get("headers", {}).items()}
        if "accept" in call:
            headers["Authorization"] = f"Bearer {self._user(note)['access_token']}"
        given = {"data": call["data"]} if call.get("data") else {"json": self._ours(call.get("json"))}
        async with self.gateway.client.request(
            call["method"],
            self.gateway.url + self._ours(call["path"]),
            headers=headers,
            params=self._ours(call.get("params")),
            allow_redirects=False,
            **(given if given.get("json", "") is not None else {}),
        ) as response:
            text = await response.text()
            if response.content_type == "text/event-stream":
                return response.status, _events(text)
            whole = text if response.content_type == "text/plain" else json.loads(text or '""')
            return response.status, whole

    def learn(self, note: str, theirs: Any, ours: Any) -> None:
        """Which of our names stand where theirs did."""
        if note.startswith(("debug login", "deleted user logs in")):
            self.latest = note.split()[-1] if note.startswith("debug") else self.latest
            self.tokens[self.latest] = {kind: ours[kind]["access_token"] for kind in ours}
        elif isinstance(theirs, dict) and isinstance(ours, dict):
            for key in theirs.keys() & ours.keys():
                self.learn("", theirs[key], ours[key])
        elif isinstance(theirs, list) and isinstance(ours, list):
            for pair in zip(theirs, ours, strict=False):
                self.learn("", *pair)
        elif isinstance(theirs, str) and isinstance(ours, str) and re.fullmatch(r"[\w-]{36}|MDZ\w+", theirs):
            self.names[theirs] = ours

    def _user(self, note: str) -> dict[str, str]:
        if self.latest == "chat2" and "other user" not in note:
            return self.tokens["chat1"]
        return self.tokens[self.latest]

    def _header(self, note: str, name: str, text: str) -> str:
        if name == "TrustedClient" and text.endswith("..."):
            client = {"client": "website", "user_id": "tu-1", "provider_account_id": "pa-1"}
            key = "nope" if "bad key" in note else "6969"
            whole = client | {"api_key": key, "username": "Trusted One"}
            return base64.b64encode(json.dumps(whole).encode()).decode()
        if name == "Refresh" and text.endswith("..."):
            return self._user(note)["refresh_token"]
        if text == "Bearer 1234":
            assert self.gateway.gateway.chats is not None and self.gateway.gateway.chats.service is not None
            return f"Bearer {self.gateway.gateway.chats.service.secrets.root_token}"
        if text.endswith("..."):
            kind = "refresh_token" if "refresh token" in note else "access_token"
            return f"Bearer {self._user(note)[kind]}"
        return text

    def _ours(self, theirs: Any) -> Any:
        if theirs is None:
            return None
        text = json.dumps(theirs)
        for name, ours in self.names.items():
            text = text.replace(name, ours)
        return json.loads(text)


def _heard(lines: list[tuple[float, str]]) -> list[Any]:
    return _events("\n".join(line for _, line in lines))


def _events(text: str) -> list[Any]:
    """Without those that tell how long the queue is: a matter of time."""
    events = [json.loads(line.strip()[6:]) for line in text.splitlines() if line.startswith("data: ")]
    return [event for event in events if event["event_type"] != "pending"]


def shape(value: Any) -> Any:
    """Keys and types; of a list, what its elements are like, whatever their order and number."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in sorted(value.items()) if key not in SHAPES}
    if isinstance(value, list):
        return sorted({json.dumps(shape(each)) for each in value})
    return {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}[type(value)]


async def lorem(exchange: Exchange) -> None:
    await exchange.begin_stream()
    for word in ("Dolore ", "sit"):
        event = {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


@pytest.fixture
async def gateway(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningGateway]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    chat = {
        "database": database_url,
        "allow_debug_auth": True,
        "trusted_client_keys": ["6969"],
        "debug_api_keys": ["0000", "1111"],
        "models": [LOREM],
    }
    async with (
        scripted_worker(lorem, models=["_lorem"]) as worker,
        running_gateway(worker.url, chat=chat) as gateway,
    ):
        yield gateway


async def test_the_published_tour(gateway: RunningGateway) -> None:
    """All of it, as each call builds on those before it; all that differs is told together."""
    guide, told = Guide(gateway, {"http://127.0.0.1:18000": gateway.url}), []
    rows = [json.loads(line) for line in TOUR.read_text().splitlines()]
    calls = [row for row in rows if "req" in row and row["note"] not in ELSEWHERE]
    assert len(calls) == 116 - len(ELSEWHERE)
    for call in calls:
        note, theirs = call["note"], call["res"]
        status, body = await guide.make(note, call["req"])
        wanted = STATUSES[note][0] if note in STATUSES else theirs["status"]
        if status != wanted:
            told.append(f"{note}: {status} instead of {wanted}: {body}")
        elif note not in STATUSES:
            expected = theirs["body"] if "body" in theirs else _heard(theirs["sse_lines"])
            guide.learn(note, expected, body)
            if shape(body) != shape(expected):
                told.append(f"{note}: {shape(body)} instead of {shape(expected)}")
    assert not told, "\n".join(told)
