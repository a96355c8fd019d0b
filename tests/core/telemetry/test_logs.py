"""What lines say and what they do not; and that nobody who logs waits for whoever reads."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
import threading

import msgspec
import pytest

from radixway.core.config import LogsConfig
from radixway.core.telemetry import configure_logging, flush_logs, log_fields
from radixway.core.telemetry.logs import setup
from radixway.core.telemetry.logs.line_writer import LineWriter
from radixway.core.telemetry.logs.setup import (
    console_renderer,
    defer_record,
    format_redacted,
    render_json,
)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001  whatever it is, it is to be told of
        return caught


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def record(text: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("radixway.test", logging.ERROR, "f", 1, text, args, info)


def test_a_traceback_says_where_and_which_type_and_repeats_no_words() -> None:
    said = format_redacted(raised(caused(ValueError("what she asked"), KeyError("her card"))))
    assert "KeyError" in said and "ValueError" in said and "test_logs.py" in said
    assert "she asked" not in said and "card" not in said


def test_of_several_errors_each_is_told() -> None:
    said = format_redacted(
        raised(ExceptionGroup("what she asked", [ValueError("her card"), TypeError("her name")]))
    )
    assert "ValueError" in said and "TypeError" in said and "her" not in said and "she" not in said


def test_an_operating_systems_words_stay() -> None:
    said = format_redacted(raised(FileNotFoundError(2, "No such file or directory", "/nowhere")))
    assert "No such file or directory: '/nowhere'" in said


@pytest.mark.parametrize("render", [render_json, console_renderer(colors=False)])
def test_a_record_is_one_line_and_moves_no_cursor(render) -> None:
    forged = 'x\n{"event": "forged"}\r\x1b[2J\u2028\x00'
    made = record("worker %s is gone", forged)
    made.radixway_fields = {"model": forged, "status": 200, "none": None}
    line = render(defer_record(made)())
    assert len(line.splitlines()) == 1 or render is render_json  # JSON leaves U+2028 as it is
    assert "\n" not in line and "\r" not in line and "\x1b" not in line and "\x00" not in line
    assert "none" not in line and "200" in line


def test_json_says_when_what_and_where() -> None:
    error = raised(ValueError("what she asked"))
    said = json.loads(render_json(defer_record(record("request %s failed", "r1", error=error))()))
    assert said["event"] == "request r1 failed" and said["level"] == "error"
    assert said["logger"] == "radixway.test" and re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said["timestamp"]
    )
    assert "ValueError" in said["exception"] and "she asked" not in said["exception"]
    assert len(render_json(defer_record(record("x" * 100_000))())) < 5000


def test_for_people_a_traceback_has_its_lines() -> None:
    error = raised(ValueError("what she asked"))
    shown = console_renderer(colors=False)(defer_record(record("it failed", error=error))())
    assert "it failed" in shown and "\nValueError" in shown and "she asked" not in shown


def test_lines_that_nobody_reads_wait_and_then_are_counted_and_lost() -> None:
    reader, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        writer = LineWriter(lambda: stream, lambda: None, own=str, max_lines=100)
        for number in range(20_000):  # more than a pipe holds: the thread waits, and we do not
            writer.put_nowait(lambda number=number: f"{number} " + "x" * 100)
        assert writer.lost > 0
        gathered: list[bytes] = []
        reading = threading.Thread(target=lambda: gathered.extend(iter(lambda: os.read(reader, 65536), b"")))
        reading.start()
        writer.put_nowait(lambda: "after")
        assert writer.flush_lines(60)
        writer.put_nowait(lambda: "the last")
        assert writer.flush_lines(60)
        writer.unregister()
    reading.join()
    os.close(reader)
    lines = b"".join(gathered).decode().splitlines()
    numbers = [int(line.split()[0]) for line in lines if line.endswith("x")]
    assert numbers == sorted(numbers) and lines[-1] == "the last"
    assert any("lines were lost" in line for line in lines)
    assert len(numbers) + writer.lost >= 20_000


def test_a_stream_that_was_closed_ends_nothing() -> None:
    stream = io.StringIO()
    writer = LineWriter(lambda: stream, lambda: None, own=str)
    stream.close()
    writer.put_nowait(lambda: "one")
    assert writer.flush_lines(60)
    writer.put_nowait(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    assert writer.flush_lines(60)
    writer.unregister()


def test_what_was_logged_last_is_written_when_the_process_ends() -> None:
    program = (
        "import logging; from radixway.core.config import LogsConfig\n"
        "from radixway.core.telemetry import *\n"
        "configure_logging(LogsConfig())\n"
        "logging.getLogger('radixway.x').info('the %s words', 'last')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["event"] == "the last words"


ENDINGS = """
import atexit, logging, sys, threading

log = logging.getLogger("radixway.x")


def say(*_, log=log):
    log.info("the last words")


class Late:
    __del__ = say


if sys.argv[1] == "atexit":
    atexit.register(say)  # before ours: it runs after it

from radixway.core.config import LogsConfig
from radixway.core.telemetry import configure_logging, flush_logs

configure_logging(LogsConfig())
if "again" in sys.argv:
    log.info("earlier words")
    flush_logs()
if sys.argv[1] == "del":
    late = Late()
if sys.argv[1] == "thread":
    main = threading.current_thread()
    threading.Thread(target=lambda: say(main.join())).start()
if sys.argv[1] == "fork":
    from multiprocessing import get_context

    child = get_context("fork").Process(target=say)
    child.start()
    child.join()
    sys.exit(child.exitcode)
if sys.argv[1] == "no thread":
    def refuse(self):
        raise RuntimeError("can't start new thread")

    threading.Thread.start = refuse
    say()
"""


@pytest.mark.parametrize("earlier", [(), ("again",)], ids=["the first line", "not the first line"])
@pytest.mark.parametrize("when", ["atexit", "del", "thread", "fork", "no thread"])
def test_a_process_that_logs_while_it_ends_ends_and_its_line_is_there(when: str, earlier: tuple[str, ...]):
    command = [sys.executable, "-c", ENDINGS, when, *earlier]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert said == ["earlier words"] * len(earlier) + ["the last words"]
    assert done.returncode == 0


def test_a_process_whose_lines_nobody_reads_ends() -> None:
    program = (
        "import atexit, logging; log = logging.getLogger('radixway.x')\n"
        "atexit.register(lambda: [log.info('x' * 100) for _ in range(1000)])\n"
        "from radixway.core.config import LogsConfig; from radixway.core.telemetry import *\n"
        "configure_logging(LogsConfig())\n"
        "class Late:\n"
        "    def __del__(self): log.info('late')\n"
        "late = Late()\n"
        "for _ in range(3000): log.info('x' * 100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        assert process.wait(60) == 0


@pytest.fixture
def stderr(capsys):
    return lambda: capsys.readouterr().err


def test_what_is_said_of_lines_is_json_too(stderr) -> None:
    configure_logging(LogsConfig())
    writer = setup._writer
    writer.lost = 3
    writer.put_nowait(lambda: 1 / 0)
    assert flush_logs(60)
    said = [json.loads(line) for line in stderr().splitlines()]
    assert [line["event"].split(" because")[0] for line in said] == [
        "a line could not be written: ZeroDivisionError",
        "3 lines were lost",
    ]
    assert {(line["level"], line["logger"]) for line in said} == {("warning", "radixway.core.telemetry.logs")}


def test_off_a_terminal_lines_are_json_with_their_fields(stderr) -> None:
    configure_logging(LogsConfig())
    log_fields(
        logging.getLogger("radixway.requests"), logging.INFO, "request", {"status": 200, "worker": None}
    )
    logging.getLogger("radixway.x").debug("not this")
    assert flush_logs(60)
    (said,) = map(json.loads, stderr().splitlines())
    assert said["event"] == "request" and said["status"] == 200 and "worker" not in said


def test_levels_formats_and_lines_of_requests_are_configured(stderr) -> None:
    configure_logging(LogsConfig(level="debug", format="console", requests=False))
    log_fields(logging.getLogger("radixway.requests"), logging.INFO, "request", {"status": 200})
    logging.getLogger("radixway.x").debug("worker %s", "w")
    assert flush_logs(60)
    assert "worker w" in stderr()
    assert logging.getLogger("radixway.requests").isEnabledFor(logging.INFO) is False


class FieldsOfALine(msgspec.Struct, kw_only=True, omit_defaults=True):
    request: str
    worker: str | None = None
    status: int
    total_ms: float


@pytest.mark.parametrize("text", ["plain", 'a "quoted" line\nbreak', "é" * 10, "x" * 5000])
def test_a_line_of_fields_is_what_the_general_way_makes_of_it(text: str) -> None:
    given = 1_700_000_000.0625, "info", "radixway.requests", text
    fields = {"request": text, "worker": None, "status": 200, "total_ms": 1.5}
    plain = render_json(setup._build_line(*given, fields))
    line = FieldsOfALine(request=text, status=200, total_ms=1.5)
    assert setup._render_json_line(*given, fields) == plain
    assert setup._render_json_line(*given, line) == plain
    assert setup._render_json_line(*given, {}) == render_json(setup._build_line(*given, {}))


def test_who_waits_for_lines_does_not_wait_until_they_are_gathered() -> None:
    stream = io.StringIO()
    writer = LineWriter(lambda: stream, lambda: None, own=str, gathering_s=3600.0)
    for line in ("one", "two"):
        writer.put_nowait(lambda line=line: line)
        assert writer.flush_lines(60)
    assert stream.getvalue() == "one\ntwo\n"
    writer.unregister()


def test_a_warning_is_not_held_back_for_lines_that_may_follow() -> None:
    read, write = os.pipe()
    with os.fdopen(read, encoding="utf-8") as reading, os.fdopen(write, "w", encoding="utf-8") as stream:
        writer = LineWriter(lambda: stream, lambda: None, own=str, gathering_s=3600.0)
        log = logging.Logger("test")
        log.addHandler(setup._LineHandler(writer, lambda fields: str(fields["event"])))
        for line in ("one", "two"):
            log.info("gathers")
            log.warning(line)
            assert [reading.readline(), reading.readline()] == ["gathers\n", f"{line}\n"]
        writer.unregister()
