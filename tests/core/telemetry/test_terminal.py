"""What a server prints when nobody reads it."""

import logging
import os

import pytest

from radixway.core.config import LogsConfig
from radixway.core.telemetry import ServerConsole, configure_logging, flush_logs


@pytest.fixture
def unread():
    """A stream whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        yield stream


def test_a_console_that_nobody_reads_falls_silent(unread):
    console = ServerConsole(file=unread)
    console.print("one")
    console.print("two")
    unread.write("three")
    unread.flush()


def test_a_log_that_nobody_reads_ends_nothing(unread, monkeypatch):
    monkeypatch.setattr("sys.stderr", unread)
    configure_logging(LogsConfig())
    logging.getLogger("radixway.test").warning("nobody hears this")
    assert flush_logs(60)
    unread.write("nor this")
    unread.flush()
