"""Somebody who chats over `/v1/chats`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from support.running_gateway import RunningGateway


class Chatter:
    """One user of a running gateway."""

    def __init__(self, gateway: RunningGateway, token: str) -> None:
        self.gateway = gateway
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON; `path` below `/v1/chats`, or from the root where it begins with `//`."""
        url = self.gateway.url + (path[1:] if path.startswith("//") else f"/v1/chats{path}")
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
        async with self.gateway.client.request(
            method, url, data=data, headers=self.headers | headers
        ) as response:
            text = await response.text()
            told = json.loads(text) if response.content_type == "application/json" and text else text
            return response.status, told

    async def chat(self, **fields: Any) -> str:
        """The path of a new chat."""
        status, chat = await self.call("POST", "", fields)
        assert status == 201, chat
        return f"/{chat['id']}"

    async def ask(self, chat: str, content: str, key: str | None = None, **fields: Any) -> Any:
        """A question with its answer."""
        headers = {} if key is None else {"Idempotency-Key": key}
        status, turn = await self.call("POST", f"{chat}/messages", {"content": content} | fields, **headers)
        assert status == 200, turn
        return turn

    async def stream(self, chat: str, body: Any) -> tuple[str, list[dict[str, Any]]]:
        """The answer's id, and its events."""
        url = f"{self.gateway.url}/v1/chats{chat}/messages"
        async with self.gateway.client.post(url, data=json.dumps(body), headers=self.headers) as response:
            assert response.status == 200 and response.content_type == "text/event-stream"
            lines = (await response.text()).split("\r\n")
            events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
            return response.headers["x-message-id"], events

    async def first_word(self, message: str) -> None:
        """Wait until an answer has begun."""
        url = f"{self.gateway.url}/v1/chats{message}/events"
        async with asyncio.timeout(10), self.gateway.client.get(url, headers=self.headers) as response:
            async for line in response.content:
                if line.startswith(b"data: ") and json.loads(line[6:])["event_type"] == "token":
                    return
        raise AssertionError("the answer ended without a word")


async def login(gateway: RunningGateway, name: str) -> Chatter:
    """A user of that name."""
    status, tokens = await gateway.get(f"/auth/callback/debug?code={name}")
    assert status == 200
    return Chatter(gateway, tokens["access_token"]["access_token"])
