"""Somebody who chats over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from support.running_gateway import RunningGateway


class ChatUser:
    def __init__(self, gateway: RunningGateway, token: str) -> None:
        self.gateway = gateway
        self.headers = {"Authorization": f"Bearer {token}"}

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        url, data = self.gateway.url + path, None if body is None else json.dumps(body)
        headers = self.headers | {"Content-Type": "application/json"}
        async with self.gateway.client.request(method, url, data=data, headers=headers) as response:
            return response.status, await response.json(content_type=None) if response.status != 204 else None

    async def asked(self, content: str = "hello", model: str = "m", **more: Any) -> dict[str, Any]:
        """An answer that was asked for in a new chat."""
        _, chat = await self.call("POST", "/chats", {})
        path = f"/chats/{chat['id']}"
        _, said = await self.call("POST", f"{path}/prompter_message", {"parent_id": None, "content": content})
        body = {"parent_id": said["id"], "model_config_name": model} | more
        status, answer = await self.call("POST", f"{path}/assistant_message", body)
        assert status == 200, answer
        return dict(answer)

    async def heard(self, answer: dict[str, Any], **headers: str) -> list[dict[str, Any]]:
        """Every event but those of its waiting."""
        path = f"/chats/{answer['chat_id']}/messages/{answer['id']}/events"
        async with self.gateway.client.get(
            self.gateway.url + path, headers=self.headers | headers
        ) as response:
            assert response.status == 200, response.status
            lines = (await response.text()).split("\r\n")
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
        return [event for event in events if event["event_type"] != "pending"]

    async def first_word(self, answer: dict[str, Any]) -> None:
        """Wait until an answer has begun."""
        url = f"{self.gateway.url}/v1/chats/{answer['chat_id']}/messages/{answer['id']}/events"
        async with asyncio.timeout(10), self.gateway.client.get(url, headers=self.headers) as response:
            async for line in response.content:
                if line.startswith(b"data: ") and json.loads(line[6:])["event_type"] == "token":
                    return
        raise AssertionError("the answer ended without a word")

    async def now(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The message as it is."""
        _, message = await self.call("GET", f"/chats/{answer['chat_id']}/messages/{answer['id']}")
        return dict(message)

    async def until(self, answer: dict[str, Any], state: str) -> dict[str, Any]:
        async with asyncio.timeout(10):
            while (message := await self.now(answer))["state"] != state:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return message


def words(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["event_type"] == "token")


async def login(gateway: RunningGateway, name: str) -> ChatUser:
    status, tokens = await gateway.get(f"/auth/callback/debug?code={name}")
    assert status == 200
    return ChatUser(gateway, tokens["access_token"]["access_token"])
