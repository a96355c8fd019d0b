"""Logging: one format for every process of ours. Request and reply bodies are never logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from traceback import format_tb
from types import TracebackType

from rich.logging import RichHandler

from radixway.telemetry.console import ServerConsole

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def configure_logging(level: str) -> None:
    """Send the package's log lines to standard error, coloured on a terminal, at `level` or above."""
    console = ServerConsole(stderr=True)
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_path=False, omit_repeated_times=False)
        handler.setFormatter(_Reticent("%(name)s: %(message)s", datefmt="%H:%M:%S"))
    else:  # rich takes a millisecond for a line
        handler = _ToFile(console)
        handler.setFormatter(_Reticent("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S"))
    for name, least in (("radixway", level), ("uvicorn.error", "warning"), ("asyncio", "warning")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(least.upper())
    logging.getLogger("asyncio").addFilter(_first_line)


class _ToFile(logging.Handler):
    """A line for each record, till nobody reads them."""

    def __init__(self, console: ServerConsole) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        try:
            print(self.format(record), file=self._console.file, flush=True)
        except BrokenPipeError:
            self._console.on_broken_pipe()


class _Reticent(logging.Formatter):
    """Tells the types of exceptions and where they were raised, not their words: those may quote a request.

    An operating system's error has its words: they name files and hosts.
    """

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802  logging's own name
        """See `logging.Formatter`."""
        error = ei[1]
        return "" if error is None else "".join(_told(error)).rstrip("\n")


def _told(error: BaseException) -> Iterator[str]:
    """The error and what led to it, the first cause first."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _told(earlier)
        yield "\nwhich led to:\n\n"
    yield "Traceback (most recent call last):\n"
    yield from format_tb(error.__traceback__)
    yield f"{type(error).__qualname__}{f': {error}' if isinstance(error, OSError) else ''}\n"
    for each in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _told(each)


def _first_line(record: logging.LogRecord) -> bool:
    """asyncio adds what futures and tasks hold, exceptions with their words among it."""
    record.msg = str(record.msg).partition("\n")[0]
    return True
