"""Helpers of commands: output, errors and signals that end them, calls to a running gateway."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rich.console import Console
from rich.text import Text

AnswerT = TypeVar("AnswerT")

out = Console(highlight=False, markup=False, soft_wrap=True)
err = Console(highlight=False, markup=False, soft_wrap=True, stderr=True)


def exit_with_error(message: str, details: str = "") -> NoReturn:
    """Print `message`, one clear sentence, and `details` in red, to standard error; exit with code 2."""
    err.print(Text.assemble(("radixway:", "bold red"), f" {message}", (details, "red")))
    raise SystemExit(2)


@contextmanager
def exit_on(*errors: type[Exception]) -> Iterator[None]:
    """End the command with the message of any of `errors` that is raised within."""
    try:
        yield
    except errors as error:
        exit_with_error(str(error))


@contextmanager
def exit_without_extra(what: str, extra: str) -> Iterator[None]:
    """End the command where packages of `extra`, which `what` needs, cannot be imported within."""
    try:
        yield
    except ModuleNotFoundError as error:
        exit_with_error(
            f"{what} is not installed (there is no {error.name}): pip install 'radixway[{extra}]'"
        )


def write_file(path: Path, text: str) -> None:
    """Write `text` to `path`; where that cannot be done the command ends."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        exit_with_error(f"cannot write {path}: {error.strerror}")


def run_call(call: Coroutine[Any, Any, AnswerT]) -> AnswerT:
    """Run `call` to a gateway and return its result; a refusal or no gateway ends the command."""
    from radixway.core.http.gateway_client import GatewayCallError

    with exit_on(GatewayCallError):
        return asyncio.run(call)


def format_json(value: Any) -> str:
    """Return `value` as indented JSON."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def journal_lines(steps: Iterable[dict[str, Any]]) -> Iterator[Text]:
    """Return the steps of a request's journal: when each was, what, and its fields; below, what it lists."""
    for step in steps:
        line = Text.assemble(f"  {step['at_ms']:8.2f} ms  ", (f"{step['step']:<8}", "bold"))
        listed: list[Text] = []
        for name, value in step.items():
            if name in ("at_ms", "step"):
                continue
            if isinstance(value, list) and value and isinstance(value[0], dict):
                listed += (_append_fields(Text(f"{_INDENT}{name}"), entry) for entry in value)
            elif isinstance(value, dict) and all(isinstance(each, dict) for each in value.values()):
                listed += (_append_fields(Text(f"{_INDENT}{name}  {key}"), value[key]) for key in value)
            else:
                _append_fields(line, {name: value})
        yield line
        yield from listed


_INDENT = " " * 15


def _append_fields(line: Text, fields: dict[str, Any]) -> Text:
    """Append all that are not empty."""
    for name, value in fields.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {each}" for key, each in value.items())
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        if value not in (None, ""):
            line.append(f"  {name} ", "dim").append(str(value))
    return line


def on_stop_signal(stop: Callable[[], object]) -> None:
    """Call `stop` in the running loop at SIGINT and SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)


def terminate_when_stdin_closes() -> None:
    """End this process when its parent dies: the parent holds the other end of stdin."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="stdin watch").start()
