"""Every route of the chats, and everybody who may come to it."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIWebSocketRoute, iter_route_contexts

from radixway.api.chats.app import build_chat_app, build_responses_app
from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.responses.service import ResponseOwners, ResponseService
from radixway.chat.api_keys import KeyScope
from radixway.chat.messages import AnswerRequest
from radixway.chat.records import UserRole
from radixway.chat.schema import deliveries
from radixway.chat.service import ChatService
from radixway.core.config import DEFAULT_TENANT
from radixway.core.pipeline import Reply, Request
from support.chat_routes import RESPONSES, ROUTES, Opens, Row
from support.running_gateway import RunningGateway, running_gateway

MODEL = {"name": "m", "model_id": "m", "max_input_length": 8192, "max_total_length": 16384}
IN, BAD, NO_LOGIN, FORBIDDEN, GONE = "in", 401, 403, 403, 404
SAY_SO = "who may use it? Say so in tests/chat_routes.py"
OF_FASTAPI = {("GET", "/openapi.json"), ("GET", "/openapi/responses.json")}
NOWHERE = "http://127.0.0.1:9/"
_USERS = ("owner", "owner's key", "other user", "other tenant", "trusted", "admin")
_STRANGERS = ("nobody", "stranger", "deleted", "deleted's key")


def _expected(opens: Opens, who: str) -> Any:
    """Of the answer: its status, or that it lets them in."""
    if opens is Opens.TO_ALL:
        return IN
    if opens is Opens.TO_ADMINS:
        if who in ("root", "admin", "admin key"):
            return IN
        return BAD if who in (*_STRANGERS, "trusted") else FORBIDDEN
    if opens in (Opens.TO_CLIENTS, Opens.TO_ONE_CLIENT):
        if who not in _USERS:
            return BAD
        return IN if opens is Opens.TO_CLIENTS or who.startswith("owner") else GONE
    if who not in _USERS:
        return {"nobody": NO_LOGIN, "worker": FORBIDDEN, "admin key": FORBIDDEN}.get(who, BAD)
    return IN if opens is Opens.TO_USERS or who.startswith("owner") else GONE


@dataclass
class Place:
    """A gateway, and all who come to it."""

    gateway: RunningGateway
    room: ChatService
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def user(self, name: str, role: UserRole = UserRole.USER) -> str:
        user = await self.room.accounts.enroll_user(DEFAULT_TENANT, "local", name, name, new_id=name)
        await self.room.accounts.set_role(user.id, role)
        return user.id

    async def token(self, user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {(await self.room.token_issuer.issue_pair(user)).access}"}

    async def key(self, scope: KeyScope, user: str | None = None) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {(await self.room.api_keys.create_key('k', scope, user_id=user))[1]}"
        }

    async def guests(self) -> dict[str, dict[str, str]]:
        """Their headers."""
        deleted = await self.user("deleted")
        came = {
            "nobody": {},
            "stranger": {"Authorization": "Bearer rxw_what-nobody-was-given"},
            "other user": await self.token(await self.user("other")),
            "admin": await self.token(await self.user("admin", UserRole.ADMIN)),
            "other tenant": {"X-API-Key": "key-of-acme"},
            "trusted": _trusted(),
            "worker": await self.key(KeyScope.WORKER),
            "root": {"Authorization": f"Bearer {self.room.secrets.root_token}"},
            "admin key": await self.key(KeyScope.ADMIN),
            "deleted": await self.token(deleted),
            "deleted's key": await self.key(KeyScope.USER, deleted),
        }
        await self.room.accounts.delete_user(deleted)
        await self.gateway.post("/auth/trusted", None, headers=_trusted())
        return came

    async def owner(self) -> str:
        """Somebody new."""
        return await self.user(f"owner-{next(self.numbers)}")

    async def keys_of(self, owner: str) -> dict[str, dict[str, str]]:
        """The headers of a user who owns things."""
        return {"owner": await self.token(owner), "owner's key": await self.key(KeyScope.USER, owner)}

    async def things(self, owner: str) -> dict[str, str]:
        """Of that user: a chat with a question, its answer, and a link to them."""
        chat = await self.room.chats.create_chat(owner)
        said = await self.room.messages.write_question(owner, chat.id, None, "hello")
        question = AnswerRequest(said.id, "q", "m", {}, priority=0, waits_s=60)
        answer, _ = await self.room.messages.request_answer(owner, chat.id, question)
        await self.room.answers.cancel_answer(owner, answer.id)
        hook, _ = await self.room.webhook_service.webhooks.add(owner, NOWHERE, [])
        share, token = await self.room.share_links.create_link(owner, chat.id, said.id, None)
        return {
            "chat_id": chat.id,
            "message_id": said.id,
            "answer_id": answer.id,
            "share_id": share.id,
            "token": token,
            "webhook_id": hook.id,
            "delivery_id": await self.given_up(owner, hook.id),
            "response_id": await self.response(owner),
            "gateway": self.gateway.url,
            "name": "calculator",
            "operation": "calculate",
            "user_id": owner,
            "worker_id": (await self.room.workers.create_worker("w"))[0].id,
        } | await self.conversation(owner)

    async def response(self, owner: str) -> str:
        """In the background, never answered: nobody serves it."""
        body = {"model": "m", "input": "x", "background": True}
        status, made, _ = await self.gateway.post("/v1/responses", body, headers=await self.token(owner))
        assert status == 200, made
        return str(made["id"])

    async def conversation(self, owner: str) -> dict[str, str]:
        """With one item."""
        headers = await self.token(owner)
        body = {"items": [{"role": "user", "content": "x"}]}
        _, made, _ = await self.gateway.post("/v1/conversations", body, headers=headers)
        _, listed = await self.gateway.get(f"/v1/conversations/{made['id']}/items", headers=headers)
        return {"conversation_id": made["id"], "item_id": listed["data"][0]["id"]}

    async def given_up(self, owner: str, hook: str) -> str:
        """Something that did not arrive there."""
        row = {"target": hook, "user_id": owner, "chat_id": "", "type": "webhook.test", "payload": "{}"}
        times = {"state": "given_up", "created_at": 0.0, "available_at": 0.0}
        async with self.room.database.write_transaction() as write:
            await write.execute(deliveries.insert().values(id=hook, **row, **times))
        return hook

    async def status(self, method: str, path: str, row: Row, things: dict[str, str], headers: Any) -> int:
        body = None if row.body is None else json.dumps(row.body)
        for name, value in things.items():
            path = path.replace(f"{{{name}}}", value)
            body = body and body.replace(f"{{{name}}}", value)
        headers = headers | ({"Content-Type": "application/json"} if body else {})
        async with self.gateway.client.request(
            method, self.gateway.url + path + row.query, data=body, headers=headers, allow_redirects=False
        ) as response:
            return response.status


def _trusted() -> dict[str, str]:
    client = {"api_key": "6969", "client": "website", "user_id": "u", "provider_account_id": "a"}
    return {"TrustedClient": base64.b64encode(json.dumps(client | {"username": "U"}).encode()).decode()}


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    chat = {
        "database": f"sqlite:///{tmp_path / 'chats.db'}",
        "allow_debug_auth": True,
        "trusted_client_keys": ["6969"],
        "models": [MODEL],
        "webhooks": {"http": True, "allowed_networks": ["127.0.0.1/32"], "per_user": 1000},
        "limits": {"at_once": 1000, "messages_per_user": 10_000},
    }
    tenants = {"acme": {"keys": [{"key": "key-of-acme", "user": "eve"}]}}
    async with running_gateway(chat=chat, tenants=tenants) as gateway:
        assert gateway.gateway.chats is not None and gateway.gateway.chats.service is not None
        yield Place(gateway, gateway.gateway.chats.service)


def _routes(app: FastAPI) -> set[tuple[str, str]]:
    found = set()
    for context in iter_route_contexts(app.routes):
        is_socket = isinstance(context.original_route, APIWebSocketRoute)
        methods = {"WS"} if is_socket else set(context.methods or ()) - {"HEAD"}
        found |= {(method, context.path) for method in methods}
    return found


async def no_road(_: Request) -> Reply:
    """Of a gateway that nobody asks."""
    raise AssertionError


async def test_every_route_has_its_row(place: Place) -> None:
    assert _routes(build_chat_app(place.room)) == set(ROUTES), SAY_SO
    room = ResponseService(place.room, no_road, no_road, place.gateway.gateway.registry)
    responses = build_responses_app(
        room, ResponseOwners(place.room, ChatAuthenticator(place.room), keys_are_needed=lambda: True)
    )
    assert _routes(responses) - OF_FASTAPI == set(RESPONSES), SAY_SO


async def test_everybody_gets_where_they_may_and_nowhere_else(place: Place) -> None:
    guests, wrong = await place.guests(), []
    owner = await place.owner()
    things, owners = await place.things(owner), await place.keys_of(owner)
    for (method, path), row in (ROUTES | RESPONSES).items():
        if row.opens is Opens.BY_ITS_OWN:
            continue
        for who in (*guests, *owners):
            expected = _expected(row.opens, who)
            status = await place.status(method, path, row, things, (guests | owners)[who])
            is_in = status not in (401, 403, 404) and status < 500
            if not (is_in if expected is IN else status == expected):
                wrong.append(f"{method} {path}: {who}: {status} instead of {expected}")
            if is_in and (row.once or (method == "DELETE" and row.opens is not Opens.TO_ALL)):
                owner = await place.owner()
                things, owners = await place.things(owner), await place.keys_of(owner)
                if row.opens not in (Opens.TO_OWNER, Opens.TO_ONE_CLIENT):
                    guests = await place.guests()
    assert not wrong, "\n".join(wrong)
