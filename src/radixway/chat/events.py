"""What listeners are sent, as JSON, in the published shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from radixway.chat.records import Message
from radixway.chat.shapes import message_read

_encode = msgspec.json.encode


class _Words(msgspec.Struct):
    event_type: str
    text: str = ""


_read_words = msgspec.json.Decoder(_Words)


def token(text: str) -> bytes:
    """Some words."""
    return _encode({"event_type": "token", "text": text})


def words(said: Iterable[bytes]) -> str:
    """All of them among some events."""
    return "".join(event.text for event in map(_read_words.decode, said) if event.event_type == "token")


def pending(position: int, size: int) -> bytes:
    """Where the answer stands in its queue."""
    return _encode({"event_type": "pending", "queue_position": position, "queue_size": size})


def plugin(thought: str, action: str, given: str, found: str) -> bytes:
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


def safe_prompt(prompt: str, message: Message) -> bytes:
    """The prompt was made safe; `message` is the prompter's."""
    return _encode({"event_type": "safe_prompt", "safe_prompt": prompt, "message": message_read(message)})


def restarted() -> bytes:
    """What was said is void: the answer begins anew."""
    return _encode({"event_type": "restart"})


def whole(message: Message) -> bytes:
    """The answer is there."""
    return _encode({"event_type": "message", "message": message_read(message)})


def error(text: str, message: Message | None) -> bytes:
    """There will be no answer, or no more of it."""
    shape: dict[str, Any] | None = None if message is None else message_read(message)
    return _encode({"event_type": "error", "error": text, "message": shape})
