"""The branches of a chat: which messages make a thread, which stand beside each other. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from radixway.chat.records import Message


def build_thread(messages: Sequence[Message], tail: str) -> list[Message]:
    """A message and all above it, the first of the chat first; empty where there is no such message."""
    by_id = {message.id: message for message in messages}
    found: list[Message] = []
    at = by_id.get(tail)
    while at is not None:
        found.append(at)
        at = None if at.parent_id is None else by_id.get(at.parent_id)
    return found[::-1]


def find_newest_tail(messages: Sequence[Message], below: str) -> str:
    """The end of the thread through a message that follows the newest child at each fork."""
    children = _children_by_parent(messages)
    while below in children:
        below = children[below][-1].id
    return below


def find_siblings(messages: Sequence[Message]) -> dict[str, list[str]]:
    """By message: what stands in its place, itself included, in the order in which it was made."""
    return {
        message.id: [each.id for each in family]
        for family in _children_by_parent(messages).values()
        for message in family
    }


def _children_by_parent(messages: Sequence[Message]) -> dict[str | None, list[Message]]:
    found: dict[str | None, list[Message]] = {}
    for message in sorted(messages, key=lambda each: each.id):
        found.setdefault(message.parent_id, []).append(message)
    return found
