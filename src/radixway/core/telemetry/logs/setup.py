"""Logging as it is configured: one format for every process of ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import lru_cache, partial
from logging.handlers import QueueHandler
from traceback import format_tb
from typing import Any

import msgspec
from structlog.dev import ConsoleRenderer

from radixway.core.config.gateway import LogsConfig
from radixway.core.telemetry.logs.line_writer import Line, LineWriter
from radixway.core.telemetry.terminal import ServerConsole

FIELDS = "radixway_fields"
"""The attribute of a record that has them."""


LineFields = Mapping[str, Any] | msgspec.Struct
"""Fields of a line. A struct with `omit_defaults`, whose only default is None, is encoded in one go."""


def log_fields(log: logging.Logger, level: int, event: str, fields: LineFields) -> None:
    """Log `event` with JSON `fields` (None is left out).

    Where only our own handler listens, no record is made: that would cost ten times as much.
    """
    handler = _handler
    if handler is not None and handler.is_alone_at(log):
        handler.write_fields(level, log.name, event, fields)
        return
    record = logging.LogRecord(log.name, level, __file__, 0, event, None, None)
    record.__dict__[FIELDS] = _mapping_of(fields)
    log.handle(record)


def format_redacted(error: BaseException) -> str:
    """Format the error and its causes without their words, which may quote a request, but for OSError's."""
    return "".join(_redacted_parts(error)).rstrip("\n")


def _redacted_parts(error: BaseException) -> Iterator[str]:
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _redacted_parts(earlier)
        yield "\nwhich led to:\n\n"
    yield "Traceback (most recent call last):\n"
    yield from format_tb(error.__traceback__)
    yield f"{type(error).__qualname__}{f': {error}' if isinstance(error, OSError) else ''}\n"
    for nested in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _redacted_parts(nested)


def keep_first_line(record: logging.LogRecord) -> bool:
    """A filter. asyncio adds what futures and tasks hold, exceptions with their words among it."""
    record.msg = str(record.msg).partition("\n")[0]
    return True


LogFields = MutableMapping[str, Any]

_MAX_TEXT_CHARS = 4096
_encode = msgspec.json.Encoder(enc_hook=str).encode


def render_json(fields: LogFields) -> str:
    """`{"timestamp": …, "level": …, "logger": …, "event": …, …}`"""
    return _encode(fields).decode()


def console_renderer(*, colors: bool) -> Callable[[LogFields], str]:
    """Return a renderer of lines for people; `colors`: on a terminal."""
    renderer = ConsoleRenderer(colors=colors, pad_event_to=0, sort_keys=False)

    def render(fields: LogFields) -> str:
        shown = {name: _plain_value(value) for name, value in fields.items() if name != "exception"}
        if "exception" in fields:  # frames of our own code, a line each
            shown["exception"] = fields["exception"]
        return str(renderer(None, "", shown))

    return render


def defer_record(record: logging.LogRecord) -> Callable[[], LogFields]:
    """Read a record now, to be put together when it is written."""
    created, level, name = record.created, record.levelname.lower(), record.name
    event = record.getMessage()
    fields: Mapping[str, Any] = getattr(record, FIELDS, {})
    error = record.exc_info[1] if record.exc_info else None
    exception = None if error is None else format_redacted(error)

    def build_fields() -> LogFields:
        line = _build_line(created, level, name, event, fields)
        if exception is not None:
            line["exception"] = exception
        return line

    return build_fields


def _mapping_of(fields: LineFields) -> Mapping[str, Any]:
    return msgspec.structs.asdict(fields) if isinstance(fields, msgspec.Struct) else fields


def _render_json_line(created: float, level: str, logger: str, event: str, fields: LineFields) -> str:
    """Return what `render_json` makes of a line, faster; `level` and `logger` are plain."""
    if not isinstance(fields, msgspec.Struct):
        fields = {name: value for name, value in fields.items() if value is not None}
    known = _encode(fields)
    if len(known) + len(event) > _MAX_TEXT_CHARS:  # a text may have to be shortened
        return render_json(_build_line(created, level, logger, event, fields))
    second = int(created)
    begin, end = _encode_constants(second, level, logger, event)
    thousandth = int((created - second) * 1e3)
    return f"{begin}{thousandth:03d}{end}{',' if len(known) > 2 else ''}{known[1:].decode()}"


_LEVELS = {number: name.lower() for name, number in logging.getLevelNamesMapping().items()}


def _build_line(created: float, level: str, logger: str, event: str, fields: LineFields) -> LogFields:
    line: LogFields = {
        "timestamp": f"{_format_second(int(created))}.{int(created % 1 * 1e3):03d}Z",
        "level": level,
        "logger": logger,
        "event": _shorten_text(event),
    }
    for field, value in _mapping_of(fields).items():
        if value is not None:
            line[field] = _shorten_text(value) if value.__class__ is str else value
    return line


def writer_notice(event: str) -> LogFields:
    """Return the notice about the lines themselves."""
    return defer_record(logging.LogRecord(__package__, logging.WARNING, __file__, 0, event, None, None))()


@lru_cache(maxsize=4)
def _format_second(since_epoch: int) -> str:
    # Not with datetime: to write a time it imports, which nothing can while the interpreter ends.
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_epoch))


@lru_cache(maxsize=32)
def _encode_constants(since_epoch: int, level: str, logger: str, event: str) -> tuple[str, str]:
    """Return what the lines of a second have in common, before the thousandths and after them."""
    said = _encode(event).decode()
    begin = f'{{"timestamp":"{_format_second(since_epoch)}.'
    return begin, f'Z","level":"{level}","logger":"{logger}","event":{said}'


def _shorten_text(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_CHARS else text[:_MAX_TEXT_CHARS] + " …"


def _plain_value(value: Any) -> Any:
    """Escape line ends and cursor movements."""
    if isinstance(value, str) and not value.isprintable():
        return "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode() for char in value
        )
    return value


_writer: LineWriter | None = None
_handler: _LineHandler | None = None


def configure_logging(section: LogsConfig) -> None:
    """Send the log lines of our packages, and what servers of ours complain of, to standard error."""
    global _writer, _handler
    console = ServerConsole(stderr=True)
    as_json = section.format == "json" or (section.format == "auto" and not console.is_terminal)
    render = render_json if as_json else console_renderer(colors=console.is_terminal)
    if _writer is not None:
        _writer.unregister()
    _writer = LineWriter(
        lambda: console.file, console.on_broken_pipe, own=lambda event: render(writer_notice(event))
    )
    handler = _handler = _LineHandler(_writer, render)
    for name, level in (("radixway", section.level), ("uvicorn.error", "warning"), ("asyncio", "warning")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    if not section.requests:
        logging.getLogger("radixway.requests").setLevel(logging.WARNING)
    logging.getLogger("asyncio").addFilter(keep_first_line)


def flush_logs(timeout_s: float = 5.0) -> bool:
    """Wait at most `timeout_s` until all logged lines are written; return whether they were."""
    return _writer is None or _writer.flush_lines(timeout_s)


class _LineHandler(QueueHandler):
    """Passes records to `writer`, which renders them when it writes."""

    def __init__(self, writer: LineWriter, render: Callable[[LogFields], str]) -> None:
        super().__init__(writer)  # type: ignore[arg-type]  # it needs `put_nowait` alone
        self._writer = writer
        self._render = render

    def createLock(self) -> None:  # noqa: N802  logging's own name
        """None is needed: a deque takes what threads append."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if record.levelno >= logging.WARNING:
            self._writer.end_gathering()

    def is_alone_at(self, log: logging.Logger) -> bool:
        """Return whether nobody else gets what is logged at `log`, a child of one of our loggers."""
        above = log.parent
        return (
            above is not None
            and log.propagate
            and not (log.handlers or log.filters or above.propagate or above.filters)
            and above.handlers == [self]
        )

    def write_fields(self, level: int, logger: str, event: str, fields: LineFields) -> None:
        """Write a line with `fields`, put together by the thread that writes it."""
        self._writer.put_nowait(partial(self._render_fields, time.time(), level, logger, event, fields))

    def _render_fields(self, created: float, level: int, logger: str, event: str, fields: LineFields) -> str:
        if self._render is render_json:
            return _render_json_line(created, _LEVELS[level], logger, event, fields)
        return self._render(_build_line(created, _LEVELS[level], logger, event, fields))

    def prepare(self, record: logging.LogRecord) -> Line:
        """Implement `QueueHandler`: read now what may change later."""
        build_fields, render = defer_record(record), self._render
        return lambda: render(build_fields())
