"""What tracebacks say, and what they do not."""

from __future__ import annotations

import logging
import sys

from radixway.telemetry.logs import _Reticent


def told(error: BaseException) -> str:
    try:
        raise error
    except BaseException:  # noqa: BLE001  whatever it is, it is to be formatted
        record = logging.LogRecord("n", logging.ERROR, "f", 1, "it failed", (), sys.exc_info())
        return _Reticent("%(message)s").format(record)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_a_traceback_says_where_and_which_type_and_repeats_no_words() -> None:
    said = told(caused(ValueError("what she asked"), KeyError("her card")))
    assert "it failed" in said and "KeyError" in said and "ValueError" in said and "test_logs.py" in said
    assert "she asked" not in said and "card" not in said


def test_of_several_errors_each_is_told() -> None:
    said = told(ExceptionGroup("what she asked", [ValueError("her card"), TypeError("her name")]))
    assert "ValueError" in said and "TypeError" in said and "her" not in said and "she" not in said


def test_an_operating_systems_words_stay() -> None:
    said = told(FileNotFoundError(2, "No such file or directory", "/nowhere"))
    assert "No such file or directory: '/nowhere'" in said
