"""Run `pip install` and say what it does, how much, and how long it has taken, in few lines.

    .venv/bin/python tools/pip_progress.py "Radixway and its libraries" -c constraints.txt -e ".[all]"

The first argument is the title, the others are pip's. On a terminal one line is redrawn each second;
elsewhere, as in a log, there is a line when a step begins and ends, and every 10 s between. If pip fails, its
own last lines are shown and its exit code is returned. It runs before anything is installed, so it needs the
standard library alone.
"""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from time import monotonic
from typing import TextIO
from urllib.parse import unquote

_REDRAW_S = 1.0
_LINE_S = 10.0
_LAST_LINES = 30
_UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_FILE = re.compile(
    r"\s*(Downloading|Using cached) (?P<file>\S+\.(?:whl|tar\.gz|zip)) \((?P<size>[\d.]+) (?P<unit>\w+)\)"
)
_LOCAL_FILE = re.compile(r"\s*Processing (?P<path>/\S+\.whl)")


class PipProgress:
    """What pip has said so far."""

    def __init__(self) -> None:
        self.num_packages = 0
        self.size_bytes = 0.0
        self.current = ""
        """What is being fetched, with its size, or what is done with all packages."""
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)

    def read_line(self, line: str) -> bool:
        """Take a line of pip's in; return whether a new phase began."""
        self.last_lines.append(line)
        if found := _FILE.match(line):
            self._add_file(found["file"], float(found["size"]) * _UNITS.get(found["unit"], 1))
        elif found := _LOCAL_FILE.match(line):
            path = Path(found["path"])
            self._add_file(path.name, path.stat().st_size if path.exists() else 0)
        elif line.startswith("Installing collected packages: "):
            self.num_packages = line.count(",") + 1
            self.current = "writing them into the environment"
            return True
        return False

    def _add_file(self, name: str, size_bytes: float) -> None:
        self.num_packages += 1
        self.size_bytes += size_bytes
        self.current = f"{'-'.join(unquote(name).split('-')[:2])} ({format_size(size_bytes)})"

    def describe(self) -> str:
        """Return how much there is so far, in words."""
        counted = f"{self.num_packages} package{'s' * (self.num_packages != 1)}"
        return f"{counted}, {format_size(self.size_bytes)}"


def format_size(size_bytes: float) -> str:
    """Return a size as people write it."""
    return f"{size_bytes / 1e6:.0f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.0f} kB"


def install_packages(title: str, arguments: list[str], out: TextIO) -> int:
    """Run `pip install` with `arguments`, telling `out` about it. Returns pip's exit code."""
    began = monotonic()
    redraws = out.isatty()

    def show(text: str, *, passing: bool = False) -> None:
        line = f"  {text} · {monotonic() - began:.0f} s"
        print(
            f"\r\x1b[K{line}" if redraws else line,
            end="" if redraws and passing else "\n",
            file=out,
            flush=True,
        )

    print(f"{title} …", file=out, flush=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    process = subprocess.Popen(
        [*command, "--progress-bar", "off", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(process, lines), daemon=True).start()
    progress, pause_s = PipProgress(), _REDRAW_S if redraws else _LINE_S
    next_s = monotonic() + pause_s
    while True:
        try:
            line = lines.get(timeout=max(0.0, next_s - monotonic()))
        except queue.Empty:
            show(f"{progress.describe()} · {progress.current or 'looking for packages'}", passing=True)
            next_s = monotonic() + pause_s
            continue
        if line is None:
            break
        if progress.read_line(line):
            show(f"{progress.describe()} fetched")
            next_s = monotonic() + pause_s
    code = process.wait()
    if code:
        show(f"pip failed with exit code {code}. Its last lines:")
        print(*progress.last_lines, sep="\n", file=out, flush=True)
    else:
        show(f"{progress.describe()} installed" if progress.num_packages else "nothing new")
    return code


def _read_lines(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line.rstrip("\n"))
    lines.put(None)


if __name__ == "__main__":
    try:
        sys.exit(install_packages(sys.argv[1], sys.argv[2:], sys.stdout))
    except KeyboardInterrupt:
        print("\ninterrupted; `make` again goes on", flush=True)
        sys.exit(130)
