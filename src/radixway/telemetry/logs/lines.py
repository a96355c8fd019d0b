"""What a line looks like: JSON for machines, columns for people. A record is one line, whatever is in it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

import msgspec
from structlog.dev import ConsoleRenderer

from radixway.telemetry.logs.fields import FIELDS
from radixway.telemetry.logs.reticence import format_redacted

LogFields = MutableMapping[str, Any]

_MAX_TEXT_CHARS = 4096
"""Characters of a text in a line."""
_encode = msgspec.json.Encoder(enc_hook=str).encode


def render_json(said: LogFields) -> str:
    """`{"timestamp": …, "level": …, "logger": …, "event": …, …}`"""
    return _encode(said).decode()


def console_renderer(*, colors: bool) -> Callable[[LogFields], str]:
    """For people, with colours on a terminal."""
    renderer = ConsoleRenderer(colors=colors, pad_event_to=0, sort_keys=False)

    def render(said: LogFields) -> str:
        shown = {name: _plain_value(value) for name, value in said.items() if name != "exception"}
        if "exception" in said:  # frames of our own code, a line each
            shown["exception"] = said["exception"]
        return str(renderer(None, "", shown))

    return render


def defer_record(record: logging.LogRecord) -> Callable[[], LogFields]:
    """What a record says, read now; put together when it is written."""
    created, level, name = record.created, record.levelname.lower(), record.name
    event = record.getMessage()
    fields: Mapping[str, Any] = getattr(record, FIELDS, {})
    error = record.exc_info[1] if record.exc_info else None
    exception = None if error is None else format_redacted(error)

    def say() -> LogFields:
        said: LogFields = {
            "timestamp": f"{_format_second(int(created))}.{int(created % 1 * 1e3):03d}Z",
            "level": level,
            "logger": name,
            "event": _shorten_text(event),
        }
        for field, value in fields.items():
            if value is not None:
                said[field] = _shorten_text(value) if value.__class__ is str else value
        if exception is not None:
            said["exception"] = exception
        return said

    return say


def writer_notice(event: str) -> LogFields:
    """What is said of the lines themselves, now."""
    return defer_record(logging.LogRecord(__package__, logging.WARNING, __file__, 0, event, None, None))()


@lru_cache(maxsize=4)
def _format_second(since_epoch: int) -> str:
    """Most of a timestamp: lines that come in the same second share it."""
    # Not with datetime: to write a time it imports, which nothing can while the interpreter ends.
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_epoch))


def _shorten_text(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_CHARS else text[:_MAX_TEXT_CHARS] + " …"


def _plain_value(value: Any) -> Any:
    """A text in which nothing ends a line or moves a cursor."""
    if isinstance(value, str) and not value.isprintable():
        return "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in value
        )
    return value
