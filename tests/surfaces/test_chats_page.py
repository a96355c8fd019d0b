"""What docs/chats.md shows works as it stands there."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from chatting import Chatter, login
from radixway.cli import app
from running_gateway import running_gateway
from scripted_worker import Exchange, scripted_worker

PAGE = (Path(__file__).parents[2] / "docs" / "chats.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def blocks(beginning: str) -> list[list[str]]:
    """The lines of those that begin so."""
    return [text.splitlines() for _, text in BLOCKS if text.startswith(beginning)]


async def talk(exchange: Exchange) -> None:
    """An answer of a word."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
    await exchange.reply(200, json.dumps({"choices": [choice]}).encode())


@pytest.fixture
async def eve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Chatter]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with (
        scripted_worker(talk) as worker,
        running_gateway(worker.url, chat={"allow_debug_auth": True}) as gateway,
    ):
        yield await login(gateway, "eve")


async def curl(eve: Chatter, line: str, known: dict[str, str]) -> Any:
    """What the command gives: JSON, or the text of events."""
    for name, value in known.items():
        line = line.replace(name, value)
    words = [word for word in shlex.split(line, comments=True)[1:] if word != "…"]
    body = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
    path = next(word for word in words if word.startswith(("/", "localhost:30000/")))
    method = "GET" if body is None else "POST"
    status, told = await eve.call(method, "/" + path.removeprefix("localhost:30000"), body)
    assert status in (200, 201), (line, told)
    return told


async def test_the_published_calls(eve: Chatter) -> None:
    create, say, ask, hear = blocks("curl -X POST")[0]
    known = {"$CHAT": (await curl(eve, create, {}))["id"]}
    known['…", "model'] = (await curl(eve, say, known))["id"] + '", "model'
    answer = await curl(eve, ask, known)
    assert answer["state"] == "pending"
    assert '"text":"Hi."' in (await curl(eve, hear, known | {"$ID": answer["id"]})).replace(" ", "")


async def test_the_calls_of_v1(eve: Chatter) -> None:
    create, whole, stream = blocks("curl … /v1/chats")[0]
    known = {"$CHAT": (await curl(eve, create, {}))["id"]}
    assert (await curl(eve, whole, known))["answer"]["content"] == "Hi."
    assert '"event_type":"message"' in (await curl(eve, stream, known)).replace(" ", "")


async def test_responses_with_openais_client(eve: Chatter) -> None:
    code = next(text for kind, text in BLOCKS if kind == "python")
    names: dict[str, Any] = {}
    here = "from openai import OpenAI\n" + code.replace("http://localhost:30000", eve.gateway.url)
    await asyncio.to_thread(exec, here, names)
    assert names["first"].output_text == "Hi."


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def radixway(line: str, **known: str) -> str:
        words = [known.get(word, word) for word in shlex.split(line, comments=True)]
        told = CliRunner().invoke(app, words[1:])
        assert told.exit_code == 0, (line, told.output)
        return told.stdout.strip()

    token, create, key, rotate, revoke = blocks("radixway chat root-token")[0]
    assert radixway(token)
    user = radixway(create)
    assert radixway(key, ID=user).startswith("rxw_")
    key_id = radixway("radixway chat keys list").splitlines()[1].split()[0]
    assert radixway(rotate, KEY_ID=key_id).startswith("rxw_")
    assert radixway(revoke, KEY_ID=key_id)
