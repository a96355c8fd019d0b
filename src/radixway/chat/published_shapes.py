"""Rows in the published JSON shapes.

What listeners are sent, as JSON, in the published shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from radixway.chat.records import Chat, Message, MessageReport


def format_time(at: float) -> str:
    """A time as the published service writes it: UTC, with microseconds, without saying so."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


def to_message_read(message: Message, reports: Sequence[MessageReport] = ()) -> dict[str, Any]:
    """`MessageRead`."""
    return {
        "id": message.id,
        "parent_id": message.parent_id,
        "content": message.content,
        "chat_id": message.chat_id,
        "created_at": format_time(message.created_at),
        "role": message.role.value,
        "state": message.state.value,
        "score": message.score,
        "reports": [
            {"id": report.id, "report_type": report.report_type, "reason": report.reason}
            for report in reports
        ],
        "work_parameters": message.work_parameters,
        "safe_content": message.safe_content,
        "safety_level": message.safety_level,
        "safety_label": message.safety_label,
        "safety_rots": message.safety_rots,
        "used_plugin": message.used_plugin,
        "model_name": message.model,
    }


def to_chat_list_read(chat: Chat) -> dict[str, Any]:
    """`ChatListRead`."""
    return {
        "id": chat.id,
        "created_at": format_time(chat.created_at),
        "modified_at": format_time(chat.modified_at),
        "title": chat.title,
        "hidden": chat.hidden,
        "allow_data_use": chat.allow_data_use,
        "active_thread_tail_message_id": chat.active_thread_tail_message_id,
    }


def to_chat_read(
    chat: Chat, messages: Sequence[Message], reports: Mapping[str, Sequence[MessageReport]]
) -> dict[str, Any]:
    """`ChatRead`. `reports`: by message."""
    read = [to_message_read(message, reports.get(message.id, ())) for message in messages]
    return {**to_chat_list_read(chat), "messages": read}


_encode = msgspec.json.encode


class _TextEvent(msgspec.Struct):
    event_type: str
    text: str = ""


_read_words = msgspec.json.Decoder(_TextEvent)


def encode_token(text: str) -> bytes:
    """Some words."""
    return _encode({"event_type": "token", "text": text})


def join_tokens(said: Iterable[bytes]) -> str:
    """All of them among some events."""
    return "".join(event.text for event in map(_read_words.decode, said) if event.event_type == "token")


def encode_pending(position: int, size: int) -> bytes:
    """Where the answer stands in its queue."""
    return _encode({"event_type": "pending", "queue_position": position, "queue_size": size})


def encode_plugin_step(thought: str, action: str, given: str, found: str) -> bytes:
    """A step of a plugin."""
    return _encode(
        {
            "event_type": "plugin_intermediate",
            "current_plugin_thought": thought,
            "current_plugin_action_taken": action,
            "current_plugin_action_input": given,
            "current_plugin_action_response": found,
            "message": None,
        }
    )


def encode_safe_prompt(prompt: str, message: Message) -> bytes:
    """The prompt was made safe; `message` is the prompter's."""
    return _encode({"event_type": "safe_prompt", "safe_prompt": prompt, "message": to_message_read(message)})


def encode_restarted() -> bytes:
    """What was said is void: the answer begins anew."""
    return _encode({"event_type": "restart"})


def encode_message(message: Message) -> bytes:
    """The answer is there."""
    return _encode({"event_type": "message", "message": to_message_read(message)})


def encode_error(text: str, message: Message | None) -> bytes:
    """There will be no answer, or no more of it."""
    shape: dict[str, Any] | None = None if message is None else to_message_read(message)
    return _encode({"event_type": "error", "error": text, "message": shape})
