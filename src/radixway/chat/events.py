"""What listeners are sent, as JSON, in the published shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from radixway.chat.records import Message
from radixway.chat.shapes import to_message_read

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
