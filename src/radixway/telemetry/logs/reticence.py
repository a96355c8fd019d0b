"""What a log says of exceptions: their types and where they were raised, not their words."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from traceback import format_tb


def format_redacted(error: BaseException) -> str:
    """The error and what led to it, the first cause first, without words: those may quote a request.

    An operating system's error has its words: they name files and hosts.
    """
    return "".join(_redacted_parts(error)).rstrip("\n")


def _redacted_parts(error: BaseException) -> Iterator[str]:
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _redacted_parts(earlier)
        yield "\nwhich led to:\n\n"
    yield "Traceback (most recent call last):\n"
    yield from format_tb(error.__traceback__)
    yield f"{type(error).__qualname__}{f': {error}' if isinstance(error, OSError) else ''}\n"
    for each in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _redacted_parts(each)


def keep_first_line(record: logging.LogRecord) -> bool:
    """A filter. asyncio adds what futures and tasks hold, exceptions with their words among it."""
    record.msg = str(record.msg).partition("\n")[0]
    return True
