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


def is_within_size(value: Any, max_bytes: int, max_depth: int = _MAX_DEPTH) -> bool:
    """Return whether `value` nests at most `max_depth` levels and takes at most `max_bytes` as JSON."""
    try:
        return _is_flat(value, max_depth) and len(msgspec.json.encode(value)) <= max_bytes
    except (OverflowError, TypeError, ValueError):  # no JSON
        return False


def sanitize_usage(usage: Any) -> dict[str, Any] | None:
    """Return the numbers of `usage`, and of objects in it; None: there are none."""
    if not isinstance(usage, dict):
        return None
    numbers = {}
    for name, given in list(usage.items())[:32]:
        nested = isinstance(given, dict)
        value = {key: count for key, count in given.items() if _is_count(count)} if nested else given
        if isinstance(name, str) and (isinstance(value, dict) or _is_count(value)):
            numbers[name] = value
    return numbers if is_within_size(numbers, 4096) and numbers else None


def sanitize_finish_reason(reason: Any) -> str | None:
    """Return `reason` as a finish reason, or None."""
    return sanitize_text(reason)[:_MAX_REASON_CHARACTERS] if isinstance(reason, str) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT


def _is_flat(value: Any, max_depth: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    items = value.values() if isinstance(value, dict) else value
    return max_depth > 0 and all(_is_flat(item, max_depth - 1) for item in items)
