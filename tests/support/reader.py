"""Somebody who types what a page says, in the order in which it says it, and looks at what comes out."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.command_lines import ELSEWHERE, SERVERS, commands
from support.free_ports import find_port
from support.gateway_process import gateway_process
from support.pages import ROOT, SHELL, Block, Page

WITHIN_S = 300
"""For a block; a loaded machine may take ten times what an idle one does."""
_QUESTION = {"model": "auto", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
_SERVING = re.compile(r"^(gateway|engine) http|^Serving\.|tokens in$")
_ANSWER = {
    "model": "auto",
    "messages": [{"role": "user", "content": "What is a radix tree?"}],
    "max_tokens": 8,
}


@dataclass
class Reader:
    """In `directory`, which looks like a checkout with Radixway installed, before a gateway that runs."""

    directory: Path
    gateway: str
    engine: str | None = None
    """Where pages have an engine on port 30001."""
    printed: str = ""
    """By the last block that ran."""
    _python: subprocess.Popen[str] | None = None
    _env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in ROOT.iterdir():
            if not path.name.startswith(".") and not (self.directory / path.name).exists():
                (self.directory / path.name).symlink_to(path)
        tools = self.directory / ".venv" / "bin"
        tools.mkdir(parents=True)
        own = 'exec "$REAL_PYTHON"'
        for name, command in {
            "python": f'case "$*" in *"-m pip"*) exit 1;; esac; {own} "$@"',  # it is the tests' own
            "python3": f'{own} "$@"',
            "radixway": f'{own} -m radixway "$@"',
            **dict.fromkeys(ELSEWHERE, 'echo "$0 needs what no test has; mark the block" >&2; exit 1'),
            "curl": 'exec "$REAL_CURL" $FAIL -sS "$@"',
        }.items():
            (tools / name).write_text(f"#!/bin/sh\n{command}\n")
            (tools / name).chmod(0o755)
        (tools.parent / ".product").touch()  # newer than all of it: the Makefile has nothing to install
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
            "PATH": f"{tools}:{os.environ['PATH']}",
            "REAL_PYTHON": sys.executable,
            "REAL_CURL": shutil.which("curl") or "curl",
            "RADIXWAY_URL": self.gateway,
            "RADIXWAY_HOME": str(self.directory / "home"),
            "HF_HUB_OFFLINE": "1",
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }

    def read(self, page: Page) -> None:
        """All of the page. Raises AssertionError that names the block."""
        try:
            for block in page.blocks:
                self.follow(block)
        finally:
            self.close()

    def close(self) -> None:
        """Puts the Python away that the page's programs ran in."""
        if self._python is not None:
            self._python.kill()
            self._python.communicate()

    def follow(self, block: Block) -> None:
        if "output" in block.notes:
            assert_shown(block, self.printed)
        elif "serves" in block.notes:
            self._serve(block)
        elif "not run" in block.notes:
            return
        elif block.language == "console":
            self._converse(block)
        elif block.language in SHELL:
            self._shell(block, f"{block.notes.get('setup', '')}\n{block.text}")
        elif block.language == "python":
            self._run_python(block)

    def _at_home(self, text: str) -> str:
        """With the addresses of this gateway and this engine."""
        text = re.sub(r"(?:127\.0\.0\.1|localhost):30000", self.gateway.removeprefix("http://"), text)
        if self.engine is not None:
            text = re.sub(r"(?:127\.0\.0\.1|localhost):30001", self.engine.removeprefix("http://"), text)
        return text

    def _here(self, text: str) -> str:
        """With this gateway's address, and the id of a request that it has just answered."""
        text = self._at_home(text)
        if "REQUEST_ID" in text:
            body = json.dumps(_QUESTION).encode()
            asked = urllib.request.Request(
                f"{self.gateway}/v1/chat/completions", body, {"content-type": "application/json"}
            )
            with urllib.request.urlopen(asked, timeout=WITHIN_S) as response:
                text = text.replace("REQUEST_ID", response.headers["x-request-id"])
        return text

    def _shell(self, block: Block, script: str) -> None:
        """What it sets is there for the blocks that follow."""
        kept = self.directory / ".environment"
        after = f"trap '{{ export -p; declare -f; }} > \"{kept}\"' EXIT\n"
        fail = "FAIL=\n" if "refused" in block.notes else "FAIL=--fail-with-body\n"
        before = f'[ -e "{kept}" ] && . "{kept}"\nset -eu -o pipefail -o allexport\n{fail}'
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                ["bash", "-c", after + before + self._here(script)],
                cwd=self.directory,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )
            try:
                process.wait(WITHIN_S)
            finally:
                with suppress(ProcessLookupError):  # what it began in the background, too
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                out.seek(0), errors.seek(0)
                self.printed = out.read()
                told = f"{block}: ended with {process.returncode}\n{self.printed}{errors.read()}"
        assert process.returncode == 0, told

    def _converse(self, block: Block) -> None:
        """`$ ` commands, and what each prints."""
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", block.text, re.MULTILINE):
            self._shell(block, command)
            if shown.strip():
                assert_shown(block, self.printed, shown)

    def _run_python(self, block: Block) -> None:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, str(Path(__file__).parent / "python_pages.py")],
                cwd=self.directory,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        code = self._here(f"{block.notes.get('setup', '')}\n{block.text}")
        self._python.stdin.write(json.dumps({"code": code, "where": str(block)}) + "\n")
        self._python.stdin.flush()
        answer = json.loads(self._python.stdout.readline())
        assert answer["error"] is None, f"{block}\n{answer['error']}"
        self.printed = answer["printed"]
        for shown in re.findall(r"^\s*print\(.*\)  # → (.*)$", block.text, re.MULTILINE):
            assert_shown(block, self.printed, f"…{shown}…")

    def _serve(self, block: Block) -> None:
        """Those that serve, until each says so; then the others, with these running; then all are stopped."""
        serving = [words for words in commands(block.text) if words[1] in SERVERS]
        with ExitStack() as stack:
            for words in serving:
                url = stack.enter_context(self._served(block, words))
            for words in commands(block.text):
                if words not in serving:
                    self._shell(block, f"RADIXWAY_URL={url} {shlex.join(words)}")

    @contextmanager
    def _served(self, block: Block, words: list[str]) -> Iterator[str]:
        """One command, on ports of its own; its address. When it is told to stop it stops well."""
        line = self._at_home(" ".join(words[1:]))
        line = re.sub(r"(--[\w-]*port) (\d+)", lambda found: f"{found[1]} {find_port()}", line)
        env = {"RADIXWAY__GATEWAY__PORT": str(find_port()), "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            [sys.executable, "-m", "radixway", *line.split()],
            cwd=self.directory,
            env=self._env | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                said = ""
                for told in process.stdout:
                    said += told
                    if _SERVING.search(told):
                        break
                else:
                    raise AssertionError(f"{block}: {line} did not serve:\n{said}")
                address = re.search(r"http://[\d.]+:\d+", said)
                yield address[0] if address else ""
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=WITHIN_S)
                assert process.returncode == 0, f"{block}: {line}\n{said}"
            finally:
                process.kill()


def assert_shown(block: Block, printed: str, shown: str | None = None) -> None:
    """That `printed` is what the page shows: text with `…` for anything, or JSON that has all keys shown."""
    shown = block.text if shown is None else shown
    if block.language == "json":
        _assert_keys(
            block, json.loads(re.sub(r"(?<=[:\[ ])…(?=[,\]} ])", "null", shown)), json.loads(printed)
        )
        return
    parts = [re.escape(" ".join(part.split())) for part in re.split(r"…|\.\.\.", shown)]
    pattern = r"\s*".join(parts) if len(parts) == 1 else r".*".join(parts)
    flat = " ".join(printed.split())
    assert re.fullmatch(pattern, flat, re.DOTALL), f"{block} shows\n{shown}\nand what comes is\n{printed}"


def _assert_keys(block: Block, shown: Any, printed: Any) -> None:
    if shown is None:
        return
    assert type(shown) is type(printed), f"{block} shows {shown!r}, and what comes is {printed!r}"
    if isinstance(shown, dict):
        for key, value in shown.items():
            assert key in printed, f"{block} shows {key!r}, and what comes has {sorted(printed)}"
            _assert_keys(block, value, printed[key])
    if isinstance(shown, list) and shown:
        assert printed, f"{block} shows {shown!r}, and what comes is empty"
        _assert_keys(block, shown[0], printed[0])


@contextmanager
def reader_of(page: Page, directory: Path, engine: str | None = None) -> Iterator[Reader]:
    """A reader with the gateway that the page asks for: `make up`, or one in front of the engine."""
    (directory / "home").mkdir()
    if page.gateway.get("up"):
        port = find_port()
        reader = Reader(directory, f"http://127.0.0.1:{port}")
        with _made_up(reader, port, page.gateway.get("in")):
            yield reader
        return
    tree = {"gateway": {"port": 0}, "workers": [{"url": engine}], **page.gateway}
    with gateway_process(directory / "gateway", tree, home=directory / "home") as (url, _):
        yield Reader(directory, url, engine)


@contextmanager
def _made_up(reader: Reader, port: int, folder: str | None) -> Iterator[None]:
    env = reader._env | {"ARGS": f"--port {port}", "RADIXWAY__ENGINE__THREADS": "1"}
    with subprocess.Popen(
        [shutil.which("make"), "up"] if folder is None else ["radixway", "up", "--port", str(port)],
        cwd=reader.directory / (folder or ""),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said = ""
            for line in process.stdout:
                said += line
                if line.startswith("Serving."):
                    break
            else:
                raise AssertionError(f"make up did not serve:\n{said}")
            yield
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
            process.communicate(timeout=WITHIN_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
