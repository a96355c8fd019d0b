"""Logging as it is configured: one format for every process of ours."""

from __future__ import annotations

import logging
from collections.abc import Callable
from logging.handlers import QueueHandler

from radixway.core.config.gateway import LogsConfig
from radixway.core.telemetry.logs.line_format import (
    LogFields,
    console_renderer,
    defer_record,
    keep_first_line,
    render_json,
    writer_notice,
)
from radixway.core.telemetry.logs.line_writer import Line, LineWriter
from radixway.core.telemetry.terminal import ServerConsole

_writer: LineWriter | None = None


def configure_logging(section: LogsConfig) -> None:
    """Send the log lines of our packages, and what servers of ours complain of, to standard error."""
    global _writer
    console = ServerConsole(stderr=True)
    as_json = section.format == "json" or (section.format == "auto" and not console.is_terminal)
    render = render_json if as_json else console_renderer(colors=console.is_terminal)
    if _writer is not None:
        _writer.unregister()
    _writer = LineWriter(
        lambda: console.file, console.on_broken_pipe, own=lambda event: render(writer_notice(event))
    )
    handler = _LineHandler(_writer, render)
    for name, least in (("radixway", section.level), ("uvicorn.error", "warning"), ("asyncio", "warning")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(least.upper())
    if not section.requests:
        logging.getLogger("radixway.requests").setLevel(logging.WARNING)
    logging.getLogger("asyncio").addFilter(keep_first_line)


def flush_logs(within_s: float = 5.0) -> bool:
    """Wait until what was logged is written; whether it was."""
    return _writer is None or _writer.flush_lines(within_s)


class _LineHandler(QueueHandler):
    """Hands each record over to `writer`; `render` puts it together where it is written."""

    def __init__(self, writer: LineWriter, render: Callable[[LogFields], str]) -> None:
        super().__init__(writer)  # type: ignore[arg-type]  # it needs `put_nowait` alone
        self._render = render

    def createLock(self) -> None:  # noqa: N802  logging's own name
        """None is needed: a deque takes what threads append."""
        self.lock = None

    def prepare(self, record: logging.LogRecord) -> Line:
        """Implement `QueueHandler`: what may change is read now."""
        say, render = defer_record(record), self._render
        return lambda: render(say())
