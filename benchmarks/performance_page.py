"""Puts the measurements of `docs/measurements/` into docs/performance.md, between the marks that name them.

    python benchmarks/performance_page.py            write the page
    python benchmarks/performance_page.py --check    exit with 1 if the page says anything else
    python benchmarks/performance_page.py --page docs/compatibility.md    another page with marks

A mark is `<!-- measured: NAME.TABLE -->…<!-- end -->`: NAME is a file of the folder, TABLE one of its tables,
one of its sentences, or `stamp`, which says at which commit and by which command NAME was measured. A page
that shows a table of NAME shows its stamp too.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from report import MEASUREMENTS, ROOT, MeasuredTable, Measurement, format_cell, read_measurement

PAGE = ROOT / "docs" / "performance.md"
_MARK = re.compile(r"(<!-- measured: ([\w-]+)\.([\w-]+) -->)(.*?)(<!-- end -->)", re.DOTALL)


class PageError(Exception):
    """A mark names what was not measured, or a page shows figures without their stamp."""


def fill_page(text: str, measurements: dict[str, Measurement]) -> str:
    """Return `text` with what stands between its marks made anew. Raises `PageError`."""
    shown: set[str] = set()
    stamped: set[str] = set()

    def block(mark: re.Match[str]) -> str:
        begin, name, key, _, end = mark.groups()
        measured = measurements.get(name)
        if measured is None:
            raise PageError(
                f"{begin}: there is no measurement {name}, only {', '.join(sorted(measurements))}"
            )
        if key == "stamp":
            stamped.add(name)
            return f"{begin}{stamp(name, measured)}{end}"
        shown.add(name)
        if key in measured.sentences:
            return f"{begin}{measured.sentences[key]}{end}"
        if key in measured.tables:
            return f"{begin}\n\n{markdown_table(measured.tables[key])}\n\n{end}"
        there = ", ".join([*measured.tables, *measured.sentences])
        raise PageError(f"{begin}: {name} has no table or sentence {key}, only {there}")

    filled = _MARK.sub(block, text)
    if text.count("<!-- measured:") != len(_MARK.findall(text)):
        raise PageError("a mark has no end, or is not `<!-- measured: NAME.TABLE -->`")
    if bare := shown - stamped:
        raise PageError(
            f"no commit is shown for {', '.join(sorted(bare))}: add <!-- measured: NAME.stamp -->"
        )
    return filled


def markdown_table(table: MeasuredTable) -> str:
    """`table` in Markdown, with numbers as `format_cell` writes them."""
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join(_row([format_cell(cell) for cell in line]) for line in lines)


def stamp(name: str, measured: Measurement) -> str:
    """Where the figures of `name` come from, in one sentence."""
    commit = "an unknown commit" if measured.commit is None else f"`{measured.commit[:8]}`"
    changed = " with changes that were not committed" if measured.changed and measured.commit else ""
    machine = measured.machine
    where = [f"{machine['cores']} cores"] if "cores" in machine else []
    where += [f"Python {machine['python']}"] if "python" in machine else []
    figures = f" ([all figures](measurements/{name}.json))" if measured.figures else ""
    on = ", ".join([measured.date, *where])
    note = f" {measured.note}" if measured.note else ""
    return f"Measured at {commit}{changed} on {on}: `{measured.command}`{figures}.{note}"


def read_measurements(folder: Path) -> dict[str, Measurement]:
    """The measurements of `folder` by their names. Raises `ValueError` for a file that is none."""
    return {path.stem: read_measurement(path) for path in sorted(folder.glob("*.json"))}


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page differs")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--measurements", type=Path, default=MEASUREMENTS, metavar="FOLDER")
    given = parser.parse_args()
    text = given.page.read_text(encoding="utf-8")
    try:
        filled = fill_page(text, read_measurements(given.measurements))
    except (PageError, ValueError) as error:
        print(f"{given.page.name}: {error}")
        return 1
    if filled == text:
        return 0
    if given.check:
        print(
            f"{given.page.name} says something else than its measurements: `make performance-docs` writes it"
        )
        return 1
    given.page.write_text(filled, encoding="utf-8")
    print(f"{given.page.name} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
