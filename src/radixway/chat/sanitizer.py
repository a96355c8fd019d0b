"""Sanitizes what workers send, so that every database can store it and every reader can show it."""

from typing import Any

import msgspec

_MAX_DEPTH = 32
"""Depth of nested collections: serializers recurse as deep."""
_MAX_COUNT = 2**53
_MAX_REASON_CHARACTERS = 64


def sanitize_text(text: str) -> str:
    """Return `text` without U+0000, which PostgreSQL cannot store."""
    return text.replace("\x00", "") if "\x00" in text else text


def is_within_size(value: Any, most: int, deepest: int = _MAX_DEPTH) -> bool:
    """Return whether `value` nests at most `deepest` levels and takes at most `most` bytes as JSON."""
    try:
        return _is_flat(value, deepest) and len(msgspec.json.encode(value)) <= most
    except (OverflowError, TypeError, ValueError):  # no JSON
        return False


def sanitize_usage(usage: Any) -> dict[str, Any] | None:
    """Return the numbers of `usage`, and of objects in it; None: there are none."""
    if not isinstance(usage, dict):
        return None
    kept = {}
    for name, told in list(usage.items())[:32]:
        value = (
            {key: each for key, each in told.items() if _is_count(each)} if isinstance(told, dict) else told
        )
        if isinstance(name, str) and (isinstance(value, dict) or _is_count(value)):
            kept[name] = value
    return kept if is_within_size(kept, 4096) and kept else None


def sanitize_finish_reason(told: Any) -> str | None:
    """Return `told` as a finish reason, or None."""
    return sanitize_text(told)[:_MAX_REASON_CHARACTERS] if isinstance(told, str) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT


def _is_flat(value: Any, deepest: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    held = value.values() if isinstance(value, dict) else value
    return deepest > 0 and all(_is_flat(each, deepest - 1) for each in held)
