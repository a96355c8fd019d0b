"""Public ids of responses, conversations and items."""

from __future__ import annotations

import re
import uuid

from radixway.chat.errors import ChatNotFoundError

RESPONSE, CONVERSATION = "resp", "conv"

_HEX = re.compile("[0-9a-f]{32}")
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
}


def external_id(prefix: str, inner: str) -> str:
    """Return `resp_…` for a message's id `inner`, `conv_…` for a chat's."""
    return f"{prefix}_{inner.replace('-', '')}"


def internal_id(prefix: str, given: str) -> str:
    """Return the id behind `given`. Raises ChatNotFoundError for what is no such name. Raises
    ChatNotFoundError for what is no such name.
    """
    kind, _, name = given.partition("_")
    if kind != prefix or _HEX.fullmatch(name) is None:
        raise ChatNotFoundError("Not found")
    return str(uuid.UUID(name))


def new_item_id(kind: str) -> str:
    """Make an id for an item of this `kind` that came without one."""
    return f"{_PREFIXES.get(kind, 'item')}_{uuid.uuid4().hex}"
