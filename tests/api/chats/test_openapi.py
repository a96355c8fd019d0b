"""Whatever is asked of the OpenAPI of chats and of responses, the answer is no 5xx."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, Case
from schemathesis.checks import not_a_server_error

from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

schemathesis.serializer.alias("application/x-ndjson", "text/plain")
_FOR_THE_ADMIN = ("/admin", "/workers")
_S = 20.0
MODEL = "of-a-worker"
EVENTS = "/chats/{chat_id}/messages/{message_id}/events"


class Visitor:
    """Somebody with a response, and a chat of a question and an answer, which ended as nobody took it."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """`token`: what else than their own they ask with."""
        self.url = url
        self.session = requests.Session()
        tokens = self.json("GET", "/auth/callback/debug?code=eve")
        self.session.headers["Authorization"] = f"Bearer {tokens['access_token']['access_token']}"
        self.chat = self.json("POST", "/chats", {})["id"]
        said = self.json("POST", f"/chats/{self.chat}/prompter_message", {"content": "hello"})
        body = {"parent_id": said["id"], "model_config_name": "m"}
        answer = self.json("POST", f"/chats/{self.chat}/assistant_message", body)
        self.messages = [said["id"], answer["id"]]
        items = [{"role": "user", "content": "hello"}]
        self.conversation = self.json("POST", "/v1/conversations", {"items": items})["id"]
        asked = {"model": MODEL, "input": items, "conversation": self.conversation, "background": True}
        self.response = self.json("POST", "/v1/responses", asked)["id"]
        if token is not None:
            self.session.headers["Authorization"] = f"Bearer {token}"

    def json(self, method: str, path: str, body: Any = None) -> Any:
        response = self.session.request(method, self.url + path, json=body, timeout=_S)
        assert response.status_code == 200, response.text
        return response.json()

    def own(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Their own chat and messages in place of any."""
        own = {
            "chat_id": st.just(self.chat),
            "message_id": st.sampled_from(self.messages),
            "conversation_id": st.just(self.conversation),
            "response_id": st.just(self.response),
        }
        return {name: own[name] for name in parameters if name in own}


def ask(operation: APIOperation, visitor: Visitor, examples: int) -> None:
    """Raises what Schemathesis raises of a 5xx."""

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), data=st.data())
    def is_no_server_error(case: Case, data: st.DataObject) -> None:
        for name, values in visitor.own(case.path_parameters or {}).items():
            if data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(values)
        response = case.call(session=visitor.session, timeout=_S)
        if operation.path == "/v1/responses/input_tokens" and response.status_code == 501:
            return  # nothing here knows the tokens of the worker's model
        case.validate_response(response, checks=[not_a_server_error])

    is_no_server_error()


def ask_everything(url: str, of: str, root_token: str, examples: int) -> set[str]:
    """The paths that were asked. `of`: where the OpenAPI is."""
    schema = schemathesis.openapi.from_url(url + of)
    asked, visitor = set(), Visitor(url)
    for operation in (result.ok() for result in schema.get_all_operations()):
        if operation.path.startswith(_FOR_THE_ADMIN):
            ask(operation, Visitor(url, root_token), examples)
        else:
            ask(operation, visitor, examples)
        if operation.method == "delete":  # their chat may be gone, or they themselves
            visitor = Visitor(url)
        asked.add(operation.path)
    return asked


async def talk(exchange: Exchange) -> None:
    """An answer of a word."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
    await exchange.reply(200, json.dumps({"choices": [choice]}).encode())


@pytest.mark.parametrize("examples", [2, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("of", "waits_s", "among"),
    [
        ("/openapi/chats.json", 0.02, {"/chats", "/v1/chats", "/admin/workers", EVENTS, f"/v1{EVENTS}"}),
        ("/openapi/responses.json", 60, {"/v1/responses", "/v1/conversations/{conversation_id}/items"}),
    ],
    ids=["chats", "responses"],
)
async def test_nothing_that_is_asked_is_a_server_error(
    of: str, waits_s: float, among: set[str], examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every stream ends: responses have a worker; in chats answers wait a moment for one that never comes."""
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    limits = {"messages_per_user": 100_000, "at_once": 1000}
    model = {"name": "m", "model_id": "m", "max_input_length": 8, "max_total_length": 16}
    chat = {"allow_debug_auth": True, "waits_s": waits_s, "limits": limits, "models": [model]}
    async with scripted_worker(talk, models=[MODEL]) as worker:
        async with running_gateway(worker.url, chat=chat) as gateway:
            status, _ = await gateway.get("/auth/providers")
            assert status == 200
            root_token = json.loads((tmp_path / "chat-secrets.json").read_text())["root_token"]
            asked = await asyncio.to_thread(ask_everything, gateway.url, of, root_token, examples)
    assert among <= asked
