"""The models that may be asked for as Anthropic lists them, page by page."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.core.protocols.request import field_error

VERSION_HEADER = "anthropic-version"
"""Every client of Anthropic's API sends it."""
_END_OF_TIME_S = 253_402_300_800
"""The year 10000, which no timestamp can tell."""


class ModelPageQuery(msgspec.Struct, kw_only=True):
    """Which page of models is wanted; other parameters are passed over."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 20
    after_id: str | None = None
    before_id: str | None = None


def build_model_page(cards: Sequence[Mapping[str, Any]], query: ModelPageQuery) -> dict[str, Any]:
    """Return the page of `cards`, which are OpenAI's, that `query` asks for; `has_more` looks its way.

    Raises BadBodyError (400) for a cursor that is no model's, or two cursors.
    """
    if query.after_id is not None and query.before_id is not None:
        raise field_error("before_id", "and after_id exclude each other")
    names = [card["id"] for card in cards]
    if query.before_id is not None:
        end = _find_cursor(names, query.before_id, "before_id")
        start = max(0, end - query.limit)
        has_more = start > 0
    else:
        start = 0 if query.after_id is None else _find_cursor(names, query.after_id, "after_id") + 1
        end = min(start + query.limit, len(names))
        has_more = end < len(names)
    return {
        "data": [build_model_info(card) for card in cards[start:end]],
        "has_more": has_more,
        "first_id": names[start] if start < end else None,
        "last_id": names[end - 1] if start < end else None,
    }


def build_model_info(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `card` of a model, which is OpenAI's, in Anthropic's form.

    A model of which no time is known was made at the epoch, as Anthropic has it.
    """
    return {
        "type": "model",
        "id": card["id"],
        "display_name": card["id"],
        "created_at": _format_time(card["created"]),
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": None,
        "capabilities": None,
        "max_input_tokens": card.get("max_model_len"),
        "max_tokens": card.get("max_model_len"),
    }


def _format_time(created: object) -> str:
    """Format seconds since the epoch; workers may tell anything."""
    if not isinstance(created, int | float) or not 0 <= created < _END_OF_TIME_S:
        created = 0
    return datetime.fromtimestamp(int(created), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _find_cursor(names: Sequence[str], cursor: str, field: str) -> int:
    if cursor not in names:
        raise field_error(field, f"no model is called {cursor!r}")
    return names.index(cursor)
