"""Whole answers, collected before they are sent, so that those of several children can become one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from radixway.core.http import Message, Send

JSON_HEADERS = ((b"content-type", b"application/json"),)


@dataclass(slots=True)
class CollectedReply:
    """A whole answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""

    @property
    def is_json(self) -> bool:
        """Return whether it is a JSON document of a call that went well."""
        kind = next((value for name, value in self.headers if name.lower() == b"content-type"), b"")
        return self.status < 400 and kind.startswith(b"application/json")

    def with_json(self, document: Any) -> CollectedReply:
        """Return the same answer with another body."""
        body = msgspec.json.encode(document)
        headers = [header for header in self.headers if header[0].lower() != b"content-length"]
        return CollectedReply(self.status, [*headers, (b"content-length", b"%d" % len(body))], body)

    async def send_to(self, send: Send) -> None:
        """Send it to a client."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


@dataclass(slots=True)
class ReplyCollector:
    """An ASGI `send` that collects what an application answers."""

    reply: CollectedReply = field(default_factory=lambda: CollectedReply(500, []))
    parts: list[bytes] = field(default_factory=list)

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.reply.status, self.reply.headers = message["status"], list(message.get("headers", ()))
        else:
            self.parts.append(message.get("body", b""))
