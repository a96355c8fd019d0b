"""How benchmarks show their figures: tables for people, JSON for machines, measurements for the page.

A measurement is a JSON file in `docs/measurements/`: the figures of one run and, under `measurement`, the
tables made of them and where they come from (commit, date, machine, command). `performance_page.py` puts its
tables and sentences into docs/performance.md, `release_check.py` says how old it is.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEASUREMENTS = ROOT / "docs" / "measurements"
_MEASURED_PATHS = ("src", "benchmarks", "pyproject.toml", "constraints.txt")
"""A change here that is not committed may change figures."""

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """A table of a measurement: its first column names the row, numbers stay numbers until they are shown."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def print(self, title: str) -> None:
        print_table(title, self.columns, self.rows)


@dataclass(slots=True)
class Measurement:
    """One run of a benchmark, as it is kept in `docs/measurements/`."""

    commit: str | None
    """The checkout's commit; None where that cannot be told."""
    changed: bool
    """Whether the tree differed from `commit`."""
    date: str
    machine: dict[str, str | int]
    command: str
    note: str = ""
    """What else is to be known of the run, a sentence."""
    paths: list[str] = field(default_factory=list)
    """Commits that touch these make the figures older; empty: every commit does."""
    sentences: dict[str, str] = field(default_factory=dict)
    """What the page says of the figures in words, by key."""
    tables: dict[str, MeasuredTable] = field(default_factory=dict)
    figures: dict[str, object] = field(default_factory=dict)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print `rows` under `columns`: the first column to the left, the others to the right, None as –."""
    cells = [[format_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    rule = "  ".join("─" * width for width in widths)
    print(f"\n{title}\n{rule}")
    for line in [list(columns), *cells]:
        first, *others = line
        padded = [first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:], strict=True))]
        print("  ".join(padded).rstrip())
        if line == list(columns):
            print(rule)


def write_json(path: Path | str, data: Mapping[str, object]) -> None:
    """Write `data` to `path`, making the folder if need be."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_measurement(
    path: Path | str,
    tables: Mapping[str, MeasuredTable],
    figures: Mapping[str, object],
    *,
    sentences: Mapping[str, str] | None = None,
    paths: Sequence[str] = (),
    arguments: Sequence[str] | None = None,
    note: str = "",
) -> Measurement:
    """Write one run's `figures` to `path`, what the page shows of them, and where they come from.

    `paths` (of the repository) are what the figures depend on where that is less than everything.
    `arguments` is the command line, by default this process's; `note` is a sentence beside the figures.
    """
    commit, changed = _checkout()
    measured = Measurement(
        commit=commit,
        changed=changed,
        date=datetime.now(UTC).date().isoformat(),
        machine={
            "cores": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        command=command_line(sys.argv if arguments is None else arguments),
        note=note,
        paths=list(paths),
        sentences=dict(sentences or {}),
        tables=dict(tables),
        figures=dict(figures),
    )
    about = asdict(measured)
    write_json(path, about.pop("figures") | {"measurement": about})
    return measured


def read_measurement(path: Path) -> Measurement:
    """What `write_measurement` wrote to `path`. Raises `ValueError` if it is none."""
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
        about = figures.pop("measurement")
        tables = {name: MeasuredTable(**table) for name, table in about.pop("tables").items()}
        return Measurement(tables=tables, figures=figures, **about)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path.name} is not a measurement: {error}") from error


def command_line(arguments: Sequence[str]) -> str:
    """The command of a run as others would type it, from the checkout and without `--json` and `--note`."""
    script, *options = arguments
    kept: list[str] = []
    values = iter(options)
    for value in values:
        if value in ("--json", "--note"):
            next(values, None)
        elif not value.startswith(("--json=", "--note=")):
            kept.append(Path(value).name if value.startswith("/") else value)
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *kept])


def format_cell(cell: Cell) -> str:
    """A cell as it is shown: a number with three significant digits and never an exponent, None as –."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        digits = 2 if abs(cell) < 10 else 1 if abs(cell) < 100 else 0
        return f"{cell:,.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def _checkout() -> tuple[str | None, bool]:
    """The commit of the code that is measured, and whether the tree differs from it."""
    package = importlib.util.find_spec("radixway")
    if package is None or package.origin is None or not Path(package.origin).is_relative_to(ROOT / "src"):
        print("no commit is written down: `radixway` is not imported from this checkout", file=sys.stderr)
        return None, True
    git = ("git", "-C", str(ROOT))
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        status = [*git, "status", "--porcelain", "--", *_MEASURED_PATHS]
        changes = subprocess.run(status, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no commit is written down: {error}", file=sys.stderr)
        return None, True
    return head.stdout.strip(), bool(changes.stdout.strip())
