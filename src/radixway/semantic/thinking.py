"""The fields of a request that tell a model whether to think, by its family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from radixway.config.semantic import ReasoningFamily


def thinking_fields(
    body: Mapping[str, Any], family: ReasoningFamily | None, on: bool, effort: str
) -> dict[str, Any]:
    """Top-level fields to set, each whole: what the client's own field holds beside ours is kept.

    Off is said as clearly as on, because families such as Qwen3 think unless they are told not to. A family
    with efforts has no off: the client's effort is kept, else the family's lowest is set.
    """
    if family is None:
        return {}
    if family.type == "chat_template_kwargs":
        return {
            "chat_template_kwargs": {**_as_mapping(body.get("chat_template_kwargs")), family.parameter: on}
        }
    if family.type == "thinking":
        kept = _as_mapping(body.get(family.parameter))
        return {family.parameter: {**kept, "type": "enabled" if on else "disabled"}}
    outer, _, inner = family.parameter.partition(".")
    holder = body.get(outer)
    given = _as_mapping(holder).get(inner) if inner else holder
    value = effort if on else given if isinstance(given, str) else family.off
    return {outer: {**_as_mapping(holder), inner: value} if inner else value}


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
