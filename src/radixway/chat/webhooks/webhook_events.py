"""Webhook events: what happened and to which chat, never the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec

from radixway.chat.completion_hooks import EndedAnswer
from radixway.chat.records import MessageState

WebhookEventType = Literal[
    "answer.completed",
    "answer.failed",
    "answer.cancelled",
    "chat.created",
    "chat.titled",
    "chat.deleted",
    "user.deleted",
    "webhook.test",
]
EVENTS: tuple[str, ...] = get_args(WebhookEventType)

_OF_STATE: dict[MessageState, WebhookEventType] = {
    MessageState.COMPLETE: "answer.completed",
    MessageState.CANCELLED: "answer.cancelled",
}
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """Something that happened in a chat."""

    type: WebhookEventType
    chat_id: str
    """What stays in order: events of one chat come one after the other."""
    data: dict[str, Any] = field(default_factory=dict)

    def payload(self, user_id: str, at: float) -> str:
        """Return the body, as Standard Webhooks defines it. `at`: seconds since 1970."""
        told = {"user_id": user_id} | ({"chat_id": self.chat_id} if self.chat_id else {}) | self.data
        when = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return _encode({"type": self.type, "timestamp": when, "data": told}).decode()


def ended(answer: EndedAnswer) -> WebhookEvent:
    """Return the event of `answer`, which has ended: one that timed out or lost its worker has failed."""
    return WebhookEvent(
        _OF_STATE.get(answer.state, "answer.failed"),
        answer.chat_id,
        {
            "message_id": answer.id,
            "parent_id": answer.parent_id,
            "state": answer.state.value,
            "model": answer.model,
            "finish_reason": answer.finish_reason,
            "usage": answer.usage,
        },
    )
