"""Rows in the published JSON shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

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
