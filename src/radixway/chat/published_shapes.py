"""The published JSON shapes: of rows, and of the events that listeners are sent."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from radixway.chat.records import Chat, Message, MessageReport, MessageState

_ENDS = {
    MessageState.TIMEOUT: "Timeout",
    MessageState.CANCELLED: "Cancelled",
    MessageState.ABORTED_BY_WORKER: "Aborted due to worker error.",
}


def format_time(at: float) -> str:
    """Format `at`, seconds since 1970, as the published service does: UTC with microseconds, no zone."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


def to_message_read(message: Message, reports: Sequence[MessageReport] = ()) -> dict[str, Any]:
    """Return `message` as a `MessageRead`."""
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
    """Return `chat` as a `ChatListRead`."""
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
    """Return `chat` as a `ChatRead`. `reports`: by message."""
    read = [to_message_read(message, reports.get(message.id, ())) for message in messages]
    return {**to_chat_list_read(chat), "messages": read}


_encode = msgspec.json.encode


class _TextEvent(msgspec.Struct):
    event_type: str
    text: str = ""


_read_words = msgspec.json.Decoder(_TextEvent)


def encode_token(text: str) -> bytes:
    """Encode some `text` of the answer."""
    return _encode({"event_type": "token", "text": text})


def join_tokens(events: Iterable[bytes]) -> str:
    """Return the text of all token events among `events`."""
    return "".join(event.text for event in map(_read_words.decode, events) if event.event_type == "token")


def encode_pending(position: int, size: int) -> bytes:
    """Encode the answer's `position` in a queue of `size`."""
    return _encode({"event_type": "pending", "queue_position": position, "queue_size": size})


def encode_plugin_step(thought: str, action: str, given: str, found: str) -> bytes:
    """Encode a step of a plugin: `thought`, `action`, its input (`given`) and result (`found`)."""
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
    """Encode that the `prompt` was made safe; `message` is the prompter's."""
    return _encode({"event_type": "safe_prompt", "safe_prompt": prompt, "message": to_message_read(message)})


def encode_restarted() -> bytes:
    """Encode that the text so far is void, since the answer starts again."""
    return _encode({"event_type": "restart"})


def encode_message(message: Message) -> bytes:
    """Encode the end of a complete answer, `message`."""
    return _encode({"event_type": "message", "message": to_message_read(message)})


def encode_end(message: Message) -> bytes:
    """Encode the end of `message`, an answer that has ended, whether complete or not."""
    if message.state is MessageState.COMPLETE:
        return encode_message(message)
    return encode_error(message.error or _ENDS[message.state], message)


def encode_error(text: str, message: Message | None) -> bytes:
    """Encode the end of a failed answer, with `text` as the reason."""
    shape: dict[str, Any] | None = None if message is None else to_message_read(message)
    return _encode({"event_type": "error", "error": text, "message": shape})
