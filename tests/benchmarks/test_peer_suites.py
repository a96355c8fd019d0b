"""`make peers` reads what suites say of themselves, counts cases, and asks a reason for each that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.benchmarks import importing_benchmarks

with importing_benchmarks():
    import peer_suites
    from peer_suites import PeerCase, read_report, read_suite

pytestmark = pytest.mark.slow
SUITE = """
name = "somebody's suite"
against = "the engine"
source = "somebody/suite"

[not_applicable]
"test_a.py::test_images (3 cases)" = "no images"

[fails]
"test_a.py::test_known" = "known"
"""
CASES = """
import pytest

def test_good(): pass
def test_known(): assert False, "not yet"
@pytest.mark.skip(reason="no sound")
def test_sound(): pass
"""
NAMES = """
def pytest_collection_modifyitems(items):
    for item in items:
        item.user_properties.append(("original", f"test_a.py::{item.name}"))
"""
REPORT = """<testsuites><testsuite>
<testcase classname="suite.TestCalls" name="test_good"/>
<testcase classname="suite" name="test_bad">
  <properties><property name="original" value="a.py::bad"/></properties>
  <failure message="assert 1 == 2&#10;where more follows"/></testcase>
<testcase classname="suite" name="test_error"><error message="failed on setup"/></testcase>
<testcase classname="suite" name="test_xfail"><skipped type="pytest.xfail" message="known"/></testcase>
<testcase classname="suite" name="test_skip"><skipped type="pytest.skip" message="no sound"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    """A folder of one suite, of which a case passes, one fails for a reason, and one cannot be asked."""
    folder = tmp_path / "suites" / "somebody"
    folder.mkdir(parents=True)
    (folder / "suite.toml").write_text(SUITE)
    (folder / "test_a.py").write_text(CASES)
    (folder / "conftest.py").write_text(NAMES)
    return folder.parent


def add(suites: Path, file: str, text: str) -> None:
    path = suites / "somebody" / file
    path.write_text(path.read_text() + text)


def test_a_suite_is_what_its_file_says(suites: Path):
    suite = read_suite(suites / "somebody")
    assert (suite.name, suite.against, suite.requirements) == ("somebody's suite", "the engine", ())
    assert suite.fails == {"test_a.py::test_known": "known"}
    add(suites, "suite.toml", '\n[unknown]\na = "b"\n')
    with pytest.raises(TypeError, match="unknown"):
        read_suite(suites / "somebody")


def test_a_case_has_the_name_of_its_original_and_the_first_line_of_why_it_failed(tmp_path: Path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert read_report(tmp_path / "report.xml") == [
        PeerCase("suite.TestCalls::test_good", "passed"),
        PeerCase("a.py::bad", "failed", "assert 1 == 2"),
        PeerCase("suite::test_error", "failed", "failed on setup"),
        PeerCase("suite::test_xfail", "failed", "known"),
        PeerCase("suite::test_skip", "not applicable", "no sound"),
    ]


def test_every_suite_in_the_folder_is_run_and_counted(suites: Path, tmp_path: Path, capfd):
    assert peer_suites.main(["--json", str(tmp_path / "peers.json")], suites) == 0
    told = json.loads((tmp_path / "peers.json").read_text())
    assert told["somebody's suite"] == [
        {"original": "test_a.py::test_good", "outcome": "passed", "reason": ""},
        {"original": "test_a.py::test_known", "outcome": "failed", "reason": "known"},
        {"original": "test_a.py::test_sound", "outcome": "not applicable", "reason": "no sound"},
        {"original": "test_a.py::test_images (3 cases)", "outcome": "not applicable", "reason": "no images"},
    ]
    tables = told["measurement"]["tables"]
    assert tables["scores"]["rows"] == [["somebody's suite", "the engine", 2, 1, 1, 2]]
    assert tables["failures"]["rows"] == [["somebody's suite", "`test_a.py::test_known`", "known"]]
    assert "suite.toml" not in capfd.readouterr().out


def test_a_failure_without_a_reason_fails_the_run(suites: Path, capfd):
    add(suites, "test_a.py", "def test_new(): assert 1 == 2\n")
    assert peer_suites.main([], suites) == 1
    assert "test_a.py::test_new fails, and somebody/suite.toml gives no reason" in capfd.readouterr().out


def test_a_file_that_cannot_be_read_fails_the_run(suites: Path):
    add(suites, "test_a.py", "import nothing_of_this_name\n")
    assert peer_suites.main([], suites) == 1


def test_a_reason_that_is_out_of_date_is_told(suites: Path, capfd):
    add(suites, "test_a.py", "def test_mended(): pass\n")
    add(suites, "suite.toml", '"test_a.py::test_mended" = "not yet"\n"test_a.py::test_gone" = "not yet"\n')
    assert peer_suites.main([], suites) == 0
    told = capfd.readouterr().out
    assert "test_a.py::test_mended does not fail: take it out" in told
    assert "test_a.py::test_gone does not fail: take it out" in told
    assert peer_suites.main(["somebody", "-k", "good"], suites) == 0
    assert "take it out" not in capfd.readouterr().out


def test_a_suite_that_is_not_there_is_named(suites: Path, capfd):
    with pytest.raises(SystemExit):
        peer_suites.main(["nobody"], suites)
    assert "no suite nobody: there are somebody" in capfd.readouterr().err


def test_the_suites_that_are_there_can_be_read():
    folders = [path.parent for path in peer_suites.SUITES.glob("*/suite.toml")]
    assert len({read_suite(folder).name for folder in folders}) == len(folders) >= 6
