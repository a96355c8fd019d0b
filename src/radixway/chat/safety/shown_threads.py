"""Builds the thread that a model is shown: no withheld turns, and questions as they were made safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from radixway.chat.safety.safety_verdict import SafetyVerdict, is_made_safe

if TYPE_CHECKING:
    from radixway.chat.records import Message

REFUSED = "This question could not be checked for safety, and so it was not answered. Ask again in a while."
BLOCKED: dict[str, Any] = {
    "finish_reason": "content_filter",
    "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
}
"""Values of an answer by the gateway in place of a model."""


def drop_withheld(thread: Sequence[Message]) -> tuple[Message, ...]:
    """Return `thread` without questions that were withheld from the model, and the notices in place of their
    answers: otherwise one blocked question would block its chat for good.
    """
    withheld: set[str] = set()
    for message in thread[:-1]:
        if _was_withheld(message) and message.parent_id is not None:
            withheld |= {message.id, message.parent_id}
    return tuple(message for message in thread if message.id not in withheld)


def to_shown_thread(thread: Sequence[Message]) -> tuple[Message, ...]:
    """Return `thread` with its questions as they were made safe when answered: what a model was shown once it
    is shown again, which also keeps its prefix cached.
    """
    return tuple(
        replace(message, content=message.safe_content)
        if message.safe_content and is_made_safe(message.safe_content, message.content or "")
        else message
        for message in thread
    )


def has_words(message: Message) -> bool:
    """Return whether `message` has text: answers that ended before their first token do not."""
    return bool(message.content and not message.content.isspace())


def build_worker_thread(messages: Sequence[Message]) -> list[Message]:
    """Return those of `messages` that a worker is sent, the question last: those that have text.

    Published workers close their connection at a message without. Neighbours of one role that are left are
    joined, as chat templates want users and models to take turns.
    """
    spoken = [message for message in messages if message is messages[-1] or has_words(message)]
    turns: list[Message] = []
    for _, turn in groupby(spoken, key=lambda message: message.role):
        *before, last = turn
        words = [message.content or "" for message in (*before, last)]
        turns.append(replace(last, content="\n\n".join(words)) if before else last)
    return turns


def find_safety_prefix(shown: Message) -> str:
    """Return the words before the question in `shown` that make it safe; empty where it is shown as asked."""
    if shown.safe_content is None or shown.content != shown.safe_content:
        return ""
    return SafetyVerdict(shown.safety_label or "", shown.safety_rots or "").rewrite_prompt("")


def _was_withheld(answer: Message) -> bool:
    if answer.error == REFUSED:
        return True
    is_blocked = answer.finish_reason == BLOCKED["finish_reason"] and answer.usage is not None
    return is_blocked and not (answer.usage or {}).get("total_tokens", 1)
