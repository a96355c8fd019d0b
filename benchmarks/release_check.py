"""Says how many commits ago the figures of docs/performance.md were measured, and refuses what is too old.

    python benchmarks/release_check.py               `make release-check`

Exits with 1 if figures are more than 100 commits old, come from a commit that is not in this history or from
a tree with changes, or if the page says something else than the measurements. Figures that depend on a part
of the repository alone (`paths` in their file) grow older with each commit that touches it, all others with
every commit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from performance_page import PAGE, PageError, fill_page, read_measurements
from report import MEASUREMENTS, ROOT, Measurement, print_table

MAX_COMMITS = 100


@dataclass(frozen=True, slots=True)
class MeasurementAge:
    """How far a measurement lies behind `HEAD`. None: its commit is not in the history of `HEAD`."""

    commits: int | None
    touching: int | None
    """Of these, those that touch what the figures depend on."""


def measurement_age(repository: Path, measured: Measurement) -> MeasurementAge:
    """Count the commits of `repository` since `measured` was taken."""
    if (
        measured.commit is None
        or _git(repository, "merge-base", "--is-ancestor", measured.commit, "HEAD") is None
    ):
        return MeasurementAge(None, None)
    since = f"{measured.commit}..HEAD"
    commits = _git(repository, "rev-list", "--count", since)
    touching = _git(repository, "rev-list", "--count", since, "--", *measured.paths)
    return MeasurementAge(int(commits or 0), int(touching or 0))


def complaint(measured: Measurement, age: MeasurementAge, most: int) -> str | None:
    """Why figures of this age cannot be released, in words; None if they can."""
    if age.touching is None:
        return "its commit is not in this history"
    if measured.changed:
        return "measured with changes that were not committed"
    if age.touching > most:
        return f"more than {most} commits ago"
    return None


def _git(repository: Path, *arguments: str) -> str | None:
    """What git prints, None if it fails."""
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=MAX_COMMITS, metavar="N", help="commits that are allowed")
    parser.add_argument("--repository", type=Path, default=ROOT, metavar="FOLDER")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--measurements", type=Path, default=MEASUREMENTS, metavar="FOLDER")
    given = parser.parse_args()
    if _git(given.repository, "rev-parse", "HEAD") is None:
        print("release-check: this is no git checkout, so nobody can tell how old the figures are")
        return 1
    refused: list[str] = []
    rows: list[list[str | int | None]] = []
    try:
        measurements = read_measurements(given.measurements)
        text = given.page.read_text(encoding="utf-8")
        if fill_page(text, measurements) != text:
            refused.append(
                f"{given.page.name} says something else than its measurements: `make performance-docs`"
            )
    except (PageError, ValueError) as error:
        print(f"release-check: {error}")
        return 1
    for name, measured in measurements.items():
        age = measurement_age(given.repository, measured)
        commit = "unknown" if measured.commit is None else measured.commit[:8]
        rows.append([name, commit, age.commits, age.touching, ", ".join(measured.paths) or "all"])
        if reason := complaint(measured, age, given.most):
            refused.append(f"{name}: {reason}; measure again: {measured.command}")
    columns = ["figures", "measured at", "commits ago", "that count", "which count"]
    print_table(f"Figures of {given.page.name}", columns, rows)
    for line in refused:
        print(f"refused: {line}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
