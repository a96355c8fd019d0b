"""Measure the first minutes of a newcomer: from `git clone` to an answer, and what one has to read.

    python tools/first_minutes.py [--ref HEAD] [--json FILE] [--beside BEFORE.json] [--words]

Clones `--ref` of this repository into a scratch folder and runs `make up` there, with an empty HOME and
RADIXWAY_HOME and without a pip cache, as in a container in which nothing has run yet. From outside it asks
until there is an answer, an explained decision and a console page, and notes the seconds and how many lines
had been printed by then. What the machine says about where packages come from (pip's configuration) is kept.

`--words`: count what one reads, without running anything.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import yaml

ROOT = Path(__file__).parents[1]
QUESTION = "What is Radixway?"
_POLL_S = 0.1
_STOP_TIMEOUT_S = 60
_OF_THE_MACHINE = "WARNING: Location 'file:"
"""pip's word on a package index of this machine's configuration; no line that a newcomer sees."""

PLATFORM_JOB = {
    "workers": ("workers",),
    "keys": ("tenants.*.keys",),
    "limits": ("tenants.*.quotas", "tenants.*.rates"),
    "rules": ("semantic.config", "semantic.decisions", "decisions"),
    "guard": ("guard",),
    "Valkey": ("scale.limits",),
    "tracing": ("telemetry.tracing",),
}
"""What a platform engineer sets up, and the configuration keys, any of which in an example shows how."""


@dataclass
class PrintedOutput:
    """The lines of a process, as they come, and the longest time in which none came."""

    lines: list[str] = field(default_factory=list)
    longest_silence_s: float = 0.0
    _last: float = field(default_factory=monotonic)

    def read_from(self, process: subprocess.Popen[str], log: Path) -> threading.Thread:
        """Start and return a thread that reads the output of `process` to its end, into `log` too."""
        reading = threading.Thread(target=self._read, args=(process, log), daemon=True)
        reading.start()
        return reading

    def _read(self, process: subprocess.Popen[str], log: Path) -> None:
        assert process.stdout is not None
        with log.open("w") as file:
            for line in process.stdout:
                if line.startswith(_OF_THE_MACHINE):
                    continue
                self.note_silence()
                self._last = monotonic()
                self.lines.append(line.rstrip("\n"))
                file.write(line)
                file.flush()

    def note_silence(self) -> None:
        """Count the time since the last line."""
        self.longest_silence_s = max(self.longest_silence_s, monotonic() - self._last)

    def line_of(self, text: str) -> int | None:
        """Return the number of the first line that contains `text`, counted from 1."""
        return next((number for number, line in enumerate(self.lines, 1) if text in line), None)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def call(url: str, body: dict[str, Any] | None = None, accept: str = "*/*") -> tuple[int, Any, bytes]:
    """Return status, headers and body of the answer; status 0 where nothing answers."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"content-type": "application/json", "accept": accept})
    try:
        with build_opener(_NoRedirects).open(request, timeout=120) as answer:
            return answer.status, answer.headers, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers, error.read()
    except (URLError, HTTPException, OSError):
        return 0, {}, b""


def find_free_port() -> int:
    """Return a port that is free, as is the one after it."""
    while True:
        with socket.socket() as one, socket.socket() as next_one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            try:
                next_one.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def empty_environment(home: Path, pip_cache: Path | None) -> dict[str, str]:
    """Return what `make` sees: nothing of this user's but the way to reach packages."""
    env = {name: os.environ[name] for name in ("PATH", "LANG", "TERM", "SSL_CERT_FILE") if name in os.environ}
    env |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    users = Path.home() / ".config/pip/pip.conf"
    if "PIP_CONFIG_FILE" not in env and users.exists():
        env["PIP_CONFIG_FILE"] = str(users)
    if pip_cache is None:
        env["PIP_NO_CACHE_DIR"] = "1"
    else:
        env["PIP_CACHE_DIR"] = str(pip_cache)
    return env | {"HOME": str(home), "RADIXWAY_HOME": str(home / "radixway")}


def measure_first_minutes(ref: str, scratch: Path, pip_cache: Path | None, python: str) -> dict[str, Any]:
    """Clone, run `make up`, wait for each milestone, stop. Returns figures by name."""
    began = monotonic()
    clone, home = scratch / "radixway", scratch / "home"
    commit = _git("rev-parse", f"{ref}^{{commit}}", at=ROOT)
    _git("clone", "--quiet", "--no-checkout", str(ROOT), str(clone), at=scratch)
    _git("checkout", "--quiet", "--detach", commit, at=clone)
    home.mkdir()
    figures: dict[str, Any] = {"commit": commit[:8], "clone_s": round(monotonic() - began, 1)}

    port = find_free_port()
    url = f"http://127.0.0.1:{port}"
    command = ["make", "up", f"PYTHON={python}", f"ARGS=--port {port}"]
    process = subprocess.Popen(
        command,
        cwd=clone,
        env=empty_environment(home, pip_cache),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    printed = PrintedOutput()
    printed.read_from(process, scratch / "make-up.log")

    def reached(name: str) -> None:
        if not figures.get(f"{name}_s"):
            figures[f"{name}_s"] = round(monotonic() - began, 1)
            figures[f"{name}_lines"] = len(printed.lines)

    try:
        while process.poll() is None and "explained_s" not in figures:
            if call(f"{url}/health")[0] == 0:
                sleep(_POLL_S)
                continue
            reached("listening")
            _look_at_console(url, reached)
            if call(f"{url}/ready")[0] != 200:  # each refused question would be a line of the log
                sleep(_POLL_S)
                continue
            status, headers, _ = call(f"{url}/v1/chat/completions", _question())
            if status == 200:
                reached("answer")
                status, _, body = call(f"{url}/explain/{headers['x-request-id']}")
                if status == 200 and any(step["step"] == "select" for step in json.loads(body)["steps"]):
                    reached("explained")
            sleep(_POLL_S)
        deadline = monotonic() + 120
        while process.poll() is None and "console_s" not in figures and monotonic() < deadline:
            _look_at_console(url, reached)
            sleep(_POLL_S)
        while process.poll() is None and printed.line_of("Ctrl-C") is None and monotonic() < deadline:
            sleep(_POLL_S)
        printed.note_silence()
        figures["longest_silence_s"] = round(printed.longest_silence_s, 1)
        figures["console_named_in_line"] = printed.line_of("/console")
        figures["browser_at_root"] = call(url, accept="text/html")[0]
        figures["curl_at_root"] = call(url)[0]
    finally:
        figures |= _stop(process, printed)
    figures["lines"] = len(printed.lines)
    return figures


def _question() -> dict[str, Any]:
    return {
        "model": "auto",
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": 64,
        "temperature": 0,
    }


def _look_at_console(url: str, reached: Any) -> None:
    """Tell `reached` when a first visitor sees anything, and when the page itself is served."""
    status, _, body = call(f"{url}/console", accept="text/html")
    if status and status < 400:
        reached("console_first_page")
        if b"location.reload()" not in body:
            reached("console")


def _stop(process: subprocess.Popen[str], printed: PrintedOutput) -> dict[str, Any]:
    """Press Ctrl-C, as a terminal does to the whole group of processes; kill what stays."""
    before, began = len(printed.lines), monotonic()
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    try:
        code: int | None = process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        code = None
    stopped_s = round(monotonic() - began, 1)
    sleep(_POLL_S)
    return {"ctrl_c_s": stopped_s, "ctrl_c_lines": len(printed.lines) - before, "make_exit_code": code}


def _git(*words: str, at: Path) -> str:
    return subprocess.run(["git", *words], cwd=at, check=True, capture_output=True, text=True).stdout.strip()


def measure_reading(root: Path) -> dict[str, Any]:
    """Return the pages, and their words, that one reads from the deployment guide on to do the platform job.

    The guide is read first. For a part of the job of which its YAML shows no key, the page is read whose YAML
    is about that part most, among the pages that links lead to. Words are those outside of code.
    """
    guide = root / "docs/guides/deployment.md"
    keys = {page: _shown_keys(page) for page in _linked_pages(guide)}
    read = [guide]
    missing = []
    for part, wanted in PLATFORM_JOB.items():
        shows = [page for page in keys if any(_matches(key, wanted) for key in keys[page])]
        if not shows:
            missing.append(part)
        elif guide not in shows:
            read.append(max(shows, key=lambda page: _share(keys[page], wanted)))
    words = {str(page.relative_to(root)): count_words(page) for page in read}
    return {"words": sum(words.values()), "parts_without_example": missing, "pages": words}


def count_words(page: Path) -> int:
    """Return the words of a Markdown page outside of code blocks and comments."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|\]\([^)]*\)", "", text, flags=re.DOTALL)
    return len(re.findall(r"\w[\w'’./-]*", text))


def _linked_pages(start: Path) -> list[Path]:
    """Return the pages of the documentation that links reach from `start`, nearest first."""
    found = [start]
    for page in found:
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text()):
            linked = (page.parent / target).resolve()
            if linked.exists() and linked not in found and start.parents[1] in linked.parents:
                found.append(linked)
    return found


def _shown_keys(page: Path) -> set[str]:
    """Return the dotted configuration keys in the page's YAML."""
    keys: set[str] = set()
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE):
        try:
            documents = list(yaml.safe_load_all(block))
        except yaml.YAMLError:
            continue
        for document in documents:
            _add_keys(document, "", keys)
    return keys


def _add_keys(node: Any, path: str, keys: set[str]) -> None:
    if isinstance(node, dict):
        for name, value in node.items():
            keys.add(f"{path}{name}")
            _add_keys(value, f"{path}{name}.", keys)
    elif isinstance(node, list):
        for value in node:
            _add_keys(value, path, keys)


def _share(keys: set[str], wanted: Iterable[str]) -> float:
    """Return the part of `keys` that is in the sections of the keys `wanted`."""
    sections = {each.partition(".")[0] for each in wanted}
    return sum(key.partition(".")[0] in sections for key in keys) / len(keys)


def _matches(key: str, wanted: Iterable[str]) -> bool:
    return any(re.fullmatch(re.escape(each).replace(r"\*", "[^.]+"), key) for each in wanted)


def show_table(figures: dict[str, Any], beside: dict[str, Any] | None) -> str:
    """Return the figures as a Markdown table, with those of `beside` in a column before."""
    columns = [figures] if beside is None else [beside, figures]
    head = ["", *(f"{each.get('commit', '')}" for each in columns)]
    names = dict.fromkeys(name for each in columns for name in each if name not in ("commit", "pages"))
    rows = [[name, *(_cell(each.get(name)) for each in columns)] for name in names]
    rows += [["pages", *(", ".join(each.get("pages", {})) for each in columns)]]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def _cell(value: Any) -> str:
    return "–" if value is None or value == [] else f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ref", default="HEAD", help="the commit that is cloned")
    parser.add_argument("--words", action="store_true", help="count words of this checkout's pages alone")
    parser.add_argument("--pip-cache", type=Path, help="a cache that pip may use; default: none")
    parser.add_argument("--python", default="python3", help="the interpreter `make` is given")
    parser.add_argument("--scratch", type=Path, help="where the clone goes; default: a temporary folder")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--beside", type=Path, help="figures of an earlier run, shown beside")
    options = parser.parse_args()
    if options.words:
        figures = measure_reading(ROOT)
    else:
        with tempfile.TemporaryDirectory(dir=options.scratch, prefix="first-minutes-") as scratch:
            figures = measure_first_minutes(options.ref, Path(scratch), options.pip_cache, options.python)
            figures |= {"cores": os.cpu_count(), "machine": platform.machine()}
            if figures["make_exit_code"] not in (0, 2, 130) or "explained_s" not in figures:
                print(Path(scratch, "make-up.log").read_text(), file=sys.stderr)
            figures |= measure_reading(Path(scratch, "radixway"))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    beside = None if options.beside is None else json.loads(options.beside.read_text())
    print(f"{shlex.join(['python', *sys.argv])}\n\n{show_table(figures, beside)}")
    sys.exit(0 if options.words or "explained_s" in figures else 1)


if __name__ == "__main__":
    main()
