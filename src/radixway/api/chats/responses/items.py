"""The items of questions and answers, as they are kept and listed, and public ids."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from radixway.api.protocols.request import field_error
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.stored_responses import ResponseItems
from radixway.core.http import decode_query

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
    """Return the id behind `given`. Raises ChatNotFoundError for what is no such name."""
    kind, _, name = given.partition("_")
    if kind != prefix or _HEX.fullmatch(name) is None:
        raise ChatNotFoundError("Not found")
    return str(uuid.UUID(name))


def new_item_id(kind: str) -> str:
    """Make an id for an item of this `kind` that came without one."""
    return f"{_PREFIXES.get(kind, 'item')}_{uuid.uuid4().hex}"


def build_items(given: str | Sequence[dict[str, Any]]) -> ResponseItems:
    """Build items with ids and types from `given`, a checked `input`."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return [_build_item(item) for item in given]


def items_text(items: ResponseItems) -> str:
    """Join the texts of `items`: the question in a chat."""
    texts = []
    for item in items:
        content = item.get("content") if item["type"] == "message" else item.get("output")
        parts = [{"text": content}] if isinstance(content, str) else content or []
        texts += [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "\n".join(texts)


class ItemListQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which items of a list are wanted."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    before: str | None = None
    include: Any = None


def list_items(items: ResponseItems, query: Mapping[str, str]) -> dict[str, Any]:
    """Select from `items`, oldest first, the page that `query` asks for. Raises BadBodyError (400)."""
    wanted = decode_query(query, ItemListQuery)
    found = items if wanted.order == "asc" else items[::-1]
    if wanted.after is not None:
        found = found[_index_of_item(found, wanted.after, "after") + 1 :]
    if wanted.before is not None:
        found = found[: _index_of_item(found, wanted.before, "before")]
    data = found[: wanted.limit]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(found) > len(data),
    }


def _index_of_item(items: ResponseItems, item_id: str, param: str) -> int:
    place = next((place for place, item in enumerate(items) if item["id"] == item_id), None)
    if place is None:
        raise field_error(param, "there is no such item in this list")
    return place


def _build_item(item: dict[str, Any]) -> dict[str, Any]:
    kind = item.get("type", "message")
    whole = {"id": new_item_id(kind), "type": kind, "status": "completed"}
    whole |= {name: value for name, value in item.items() if value is not None}
    if kind == "message" and isinstance(item.get("content"), str):
        if item["role"] == "assistant":
            part = {"type": "output_text", "text": item["content"], "annotations": []}
        else:
            part = {"type": "input_text", "text": item["content"]}
        whole["content"] = [part]
    return whole
