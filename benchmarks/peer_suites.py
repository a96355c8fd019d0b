"""Runs the ported suites of `tests/peers/` and counts, for docs/compatibility.md, what passes.

    python benchmarks/peer_suites.py                                  every suite (`make peers`)
    python benchmarks/peer_suites.py vllm_entrypoints -k tokenize     one suite; what follows is pytest's

A suite is a folder with a `suite.toml`. One with `requirements` is run in an environment of its own, in which
these are installed on first use from the package index; all others by this Python. Servers are processes on
127.0.0.1, and the model is made here (`tests/support/tutored_model.py`): nothing else is fetched.

It fails where a case fails that `suite.toml` has no reason for, and tells which reasons are out of date.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from environments import PEERS_DIR, PeerUnavailableError, clean_environment, environment
from report import ROOT, MeasuredTable, write_measurement

SUITES = ROOT / "tests" / "peers"
Outcome = Literal["passed", "failed", "not applicable"]
_MAX_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class PeerSuite:
    """What a `suite.toml` says: one suite of another project, as far as it is run here."""

    folder: Path
    name: str
    against: str
    """What answers its requests: the engine, or the gateway in front of it."""
    source: str
    """Where the originals are: a repository, or packages with their versions."""
    not_applicable: Mapping[str, str]
    """Cases of the original that cannot be asked here, and why; a key may stand for several of one reason."""
    fails: Mapping[str, str]
    """Cases that are known to fail, and why."""
    requirements: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    """Files to run where pytest would not find them by their names."""


@dataclass(frozen=True, slots=True)
class PeerCase:
    """One case of a suite, by the name of its original, and how it ended."""

    original: str
    outcome: Outcome
    reason: str = ""


@dataclass(slots=True)
class SuiteScore:
    """The cases of one suite after a run."""

    suite: PeerSuite
    cases: list[PeerCase] = field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        return sum(case.outcome == outcome for case in self.cases)

    @property
    def applicable(self) -> int:
        return len(self.cases) - self.count("not applicable")

    def list_unexplained(self) -> list[str]:
        """The cases that fail without a reason in `suite.toml`."""
        return [
            case.original
            for case in self.cases
            if case.outcome == "failed" and case.original not in self.suite.fails
        ]

    def list_outdated(self) -> list[str]:
        """The cases that `suite.toml` says fail, and that pass or are not there."""
        failed = {case.original for case in self.cases if case.outcome == "failed"}
        return [original for original in self.suite.fails if original not in failed]


def read_suite(folder: Path) -> PeerSuite:
    """The suite of `folder`. Raises `TypeError` for a key that is not known, or one that is missing."""
    told = tomllib.loads((folder / "suite.toml").read_text(encoding="utf-8"))
    lists = {key: tuple(told.pop(key, ())) for key in ("requirements", "modules")}
    return PeerSuite(folder, **{"not_applicable": {}, "fails": {}} | told, **lists)


def run_suite(suite: PeerSuite, options: list[str], peers_dir: Path) -> SuiteScore:
    """Run `suite` with pytest in a process of its own. Raises `PeerUnavailableError` if it cannot start."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        options = [f"--junitxml={report}", "-q", "--no-header", *options]
        if suite.requirements:
            status = _run_elsewhere(suite, options, peers_dir, Path(scratch))
        else:
            status = _run_pytest(Path(sys.executable), [str(suite.folder), *options], {})
        if not report.exists():
            raise PeerUnavailableError(f"{suite.name}: pytest wrote no report, exit status {status}")
        cases = [_with_reason(case, suite) for case in read_report(report)]
    left_out = [PeerCase(name, "not applicable", reason) for name, reason in suite.not_applicable.items()]
    return SuiteScore(suite, [*cases, *left_out])


def _run_elsewhere(suite: PeerSuite, options: list[str], peers_dir: Path, scratch: Path) -> int:
    """Run `suite` in its own environment, with neither our plugins nor our settings, against a gateway."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]
    from support.peer_servers import default_gateway, tutored_engine

    python = environment(peers_dir / suite.folder.name, suite.requirements) / "bin" / "python"
    modules = [str(suite.folder / module) for module in suite.modules]
    alone = ["-c", os.devnull, "--rootdir", str(suite.folder), "--noconftest", "-p", "no:cacheprovider"]
    with tutored_engine(scratch) as engine, default_gateway(scratch / "gateway", engine) as gateway:
        # One loop for all, as clients of LangChain share their connections.
        loops = [f"asyncio_default_{what}_loop_scope=session" for what in ("fixture", "test")]
        settings = [part for each in ("asyncio_mode=auto", *loops) for part in ("-o", each)]
        asked = [*modules, *alone, *settings, *options]
        return _run_pytest(python, asked, {"PEERS_GATEWAY": gateway})


def _run_pytest(python: Path, arguments: list[str], extra: dict[str, str]) -> int:
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    env = clean_environment({"PYTHONPATH": path} | extra)
    return subprocess.run([str(python), "-m", "pytest", *arguments], cwd=ROOT, env=env).returncode


def _with_reason(case: PeerCase, suite: PeerSuite) -> PeerCase:
    """`case` with its suite's reason for the failure."""
    known = suite.fails.get(case.original)
    return replace(case, reason=known) if known and case.outcome == "failed" else case


def read_report(path: Path) -> list[PeerCase]:
    """The cases of a JUnit report that pytest wrote."""
    return [_read_case(case) for case in ElementTree.parse(path).iter("testcase")]


def _read_case(case: ElementTree.Element) -> PeerCase:
    names = [p.get("value", "") for p in case.iter("property") if p.get("name") == "original"]
    original = names[0] if names else f"{case.get('classname', '')}::{case.get('name', '')}"
    for kind in ("failure", "error"):
        if (told := case.find(kind)) is not None:
            message = told.get("message", "")
            return PeerCase(original, "failed", _first_line(message))
    if (told := case.find("skipped")) is not None:
        reason = _first_line(told.get("message", ""))
        return PeerCase(
            original, "failed" if told.get("type") == "pytest.xfail" else "not applicable", reason
        )
    return PeerCase(original, "passed")


def _first_line(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= _MAX_REASON_CHARACTERS else line[: _MAX_REASON_CHARACTERS - 1] + "…"


def score_table(scores: list[SuiteScore]) -> MeasuredTable:
    """A row per suite: how many cases apply, pass, fail and cannot be asked."""
    columns = ["suite", "against", "applicable", "passed", "failed", "not applicable"]
    rows = [
        [
            score.suite.name,
            score.suite.against,
            score.applicable,
            score.count("passed"),
            score.count("failed"),
            score.count("not applicable"),
        ]
        for score in scores
    ]
    return MeasuredTable(columns, rows)


def failure_table(scores: list[SuiteScore]) -> MeasuredTable:
    """Every case that fails, with its reason."""
    rows = [
        [score.suite.name, f"`{case.original}`", case.reason]
        for score in scores
        for case in score.cases
        if case.outcome == "failed"
    ]
    return MeasuredTable(["suite", "case", "reason"], rows or [["none", "–", "–"]])


def left_out_table(scores: list[SuiteScore]) -> MeasuredTable:
    """Why cases are not applicable, and how many entries of each suite have that reason."""
    reasons = Counter(
        (score.suite.name, case.reason)
        for score in scores
        for case in score.cases
        if case.outcome == "not applicable"
    )
    rows = [[suite, reason, number] for (suite, reason), number in reasons.items()]
    return MeasuredTable(["suite", "not applicable because", "cases"], rows)


def main(arguments: list[str] | None = None, suites: Path = SUITES) -> int:
    """Run the suites in `suites` that `arguments` name, or all; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    folders = sorted(path.parent for path in suites.glob("*/suite.toml"))
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(f.name for f in folders))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores there")
    parser.add_argument("--peers-dir", type=Path, default=PEERS_DIR, metavar="FOLDER")
    given, options = parser.parse_known_args(arguments)
    if unknown := set(given.suites) - {folder.name for folder in folders}:
        parser.error(f"no suite {', '.join(sorted(unknown))}: there are {', '.join(f.name for f in folders)}")
    scores: list[SuiteScore] = []
    for folder in folders:
        if given.suites and folder.name not in given.suites:
            continue
        try:
            scores.append(run_suite(read_suite(folder), options, given.peers_dir))
        except PeerUnavailableError as error:
            print(f"{folder.name} was not run: {error}")
            return 1
    table = score_table(scores)
    for score in scores:
        rows = [[case.original, case.reason] for case in score.cases if case.outcome == "failed"]
        if rows:
            MeasuredTable(["failed", "reason"], rows).print(score.suite.name)
    table.print("Suites of other projects")
    if given.json is not None:
        tables = {"scores": table, "failures": failure_table(scores), "left_out": left_out_table(scores)}
        figures = {score.suite.name: [asdict(case) for case in score.cases] for score in scores}
        write_measurement(given.json, tables, figures, paths=["src", "tests/peers", "tests/support"])
    return _report_reasons(scores, is_whole=not options)


def _report_reasons(scores: list[SuiteScore], *, is_whole: bool) -> int:
    """Say which reasons of `suite.toml` are missing, and after a whole run which are out of date."""
    unexplained = 0
    for score in scores:
        name = f"{score.suite.folder.name}/suite.toml"
        for original in score.list_unexplained():
            print(f"{original} fails, and {name} gives no reason for it")
            unexplained += 1
        for original in score.list_outdated() if is_whole else ():
            print(f"{original} does not fail: take it out of `fails` in {name}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
