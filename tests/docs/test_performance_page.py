"""docs/performance.md says what was measured, and a release is refused once that is too long ago."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import ROOT

BENCHMARKS = ROOT / "benchmarks"
MEASUREMENT = {
    "commit": "0" * 40,
    "changed": False,
    "date": "2026-11-23",
    "machine": {"cores": 2, "python": "3.11.7"},
    "command": "python benchmarks/gateway.py",
    "note": "Provisional.",
    "paths": [],
    "sentences": {"worst": "× 1.05 at most"},
    "tables": {"cpu": {"columns": ["gateway", "1 KB"], "rows": [["a|b", 0.3149], ["none", None]]}},
}
FIGURES = {"cpu": 0.3149}
PAGE = """In a row: <!-- measured: gateway.worst -->old<!-- end -->.

<!-- measured: gateway.cpu --><!-- end -->

<!-- measured: gateway.stamp --><!-- end -->
"""
GIT = {
    f"GIT_{who}_{what}": said
    for who in ("AUTHOR", "COMMITTER")
    for what, said in (("NAME", "a"), ("EMAIL", "a@b"))
}


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


class Documentation:
    """A repository with a page, and with one measurement of the commit that it begins with."""

    def __init__(self, root: Path) -> None:
        self.root, self.page, self.folder = root, root / "performance.md", root / "measurements"
        self.where = ("--page", self.page, "--measurements", self.folder)
        self.folder.mkdir()
        self.page.write_text(PAGE)
        self.git("init", "--quiet")
        self.commit("measured.py")
        self.first = self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments: str) -> str:
        environment = {**GIT, "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(self.root)}
        git = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(git, env=environment, capture_output=True, text=True, check=True).stdout

    def commit(self, path: str) -> None:
        with (self.root / path).open("a") as file:
            file.write("a line\n")
        self.git("add", path)
        self.git("commit", "--quiet", "--message", f"Change {path}")

    def measure(self, **changes: object) -> None:
        measured = MEASUREMENT | {"commit": self.first} | changes
        (self.folder / "gateway.json").write_text(json.dumps(FIGURES | {"measurement": measured}))

    def write(self) -> subprocess.CompletedProcess[str]:
        return run("performance_page.py", *self.where)

    def check_release(self) -> subprocess.CompletedProcess[str]:
        return run("release_check.py", "--most", "3", "--repository", self.root, *self.where)


@pytest.fixture
def documentation(tmp_path: Path) -> Documentation:
    made = Documentation(tmp_path)
    made.measure()
    return made


@pytest.mark.parametrize("page", ["performance.md", "compatibility.md"])
def test_the_page_says_what_the_measurements_say(page: str):
    checked = run("performance_page.py", "--check", "--page", ROOT / "docs" / page)
    assert checked.returncode == 0, checked.stdout


def test_tables_sentences_and_stamps_are_put_between_their_marks(documentation: Documentation):
    assert documentation.write().returncode == 0
    assert documentation.page.read_text() == (
        "In a row: <!-- measured: gateway.worst -->× 1.05 at most<!-- end -->.\n"
        "\n"
        "<!-- measured: gateway.cpu -->\n"
        "\n"
        "| gateway | 1 KB |\n"
        "| --- | --- |\n"
        "| a\\|b | 0.31 |\n"
        "| none | – |\n"
        "\n"
        "<!-- end -->\n"
        "\n"
        f"<!-- measured: gateway.stamp -->Measured at `{documentation.first[:8]}` on 2026-11-23, 2 cores,"
        " Python 3.11.7: `python benchmarks/gateway.py` ([all figures](measurements/gateway.json))."
        " Provisional.<!-- end -->\n"
    )


def test_writing_twice_changes_nothing(documentation: Documentation):
    documentation.write()
    once = documentation.page.read_text()
    assert documentation.write().stdout == ""
    assert documentation.page.read_text() == once


def test_a_figure_that_was_typed_in_is_found(documentation: Documentation):
    documentation.write()
    documentation.page.write_text(documentation.page.read_text().replace("0.31", "0.13"))
    assert run("performance_page.py", "--check", *documentation.where).returncode == 1
    assert "0.13" in documentation.page.read_text()
    assert "something else" in documentation.check_release().stdout


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<!-- measured: gateway.cpu --><!-- end -->", "no commit is shown for gateway"),
        (
            "<!-- measured: gateway.memory --><!-- end -->",
            "gateway has no table or sentence memory, only cpu, worst",
        ),
        ("<!-- measured: engine.cpu --><!-- end -->", "there is no measurement engine, only gateway"),
        ("<!-- measured: gateway.stamp -->", "a mark has no end"),
    ],
)
def test_a_wrong_mark_is_complained_of(documentation: Documentation, page: str, said: str):
    documentation.page.write_text(page)
    for done in (documentation.write(), documentation.check_release()):
        assert done.returncode == 1
        assert said in done.stdout
    assert documentation.page.read_text() == page


def test_a_file_that_is_no_measurement_is_named(documentation: Documentation):
    (documentation.folder / "other.json").write_text("{}")
    written = documentation.write()
    assert written.returncode == 1
    assert "other.json is not a measurement" in written.stdout


def test_a_release_is_refused_once_figures_are_too_old(documentation: Documentation):
    documentation.write()
    for _ in range(3):
        documentation.commit("other.py")
    young = documentation.check_release()
    assert young.returncode == 0, young.stdout
    assert f"gateway  {documentation.first[:8]:>11}            3" in young.stdout
    documentation.commit("other.py")
    old = documentation.check_release()
    assert old.returncode == 1
    assert (
        "refused: gateway: more than 3 commits ago; measure again: python benchmarks/gateway.py" in old.stdout
    )


def test_only_commits_that_touch_what_the_figures_depend_on_count(documentation: Documentation):
    documentation.measure(paths=["measured.py"])
    documentation.write()
    for _ in range(5):
        documentation.commit("other.py")
    assert documentation.check_release().returncode == 0
    for _ in range(4):
        documentation.commit("measured.py")
    assert documentation.check_release().returncode == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"changed": True}, "measured with changes that were not committed"),
        ({"commit": "1" * 40}, "its commit is not in this history"),
        ({"commit": None}, "its commit is not in this history"),
    ],
)
def test_figures_of_no_known_commit_are_refused(documentation: Documentation, changes: dict, said: str):
    documentation.measure(**changes)
    documentation.write()
    checked = documentation.check_release()
    assert checked.returncode == 1
    assert said in checked.stdout


def test_a_measurement_says_where_it_comes_from_and_names_no_folder_of_the_machine(tmp_path: Path):
    written = tmp_path / "m" / "costs.json"
    script = (
        "from report import MeasuredTable, write_measurement\n"
        "write_measurement(FILE, {'cpu': MeasuredTable(['a'], [[1]])}, {'n': 1}, arguments=[\n"
        "    '/home/me/benchmarks/costs.py', '/data/trace.gz', '--json', FILE, '--rounds', '3',\n"
        "    '--json=' + FILE, '--note', 'Two words.'])"
    ).replace("FILE", repr(str(written)))
    environment = {"PYTHONPATH": f"{BENCHMARKS}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin:/usr/local/bin"}
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True)
    figures = json.loads(written.read_text())
    measured = figures.pop("measurement")
    assert figures == {"n": 1}
    assert measured["command"] == "python benchmarks/costs.py trace.gz --rounds 3"
    assert measured["machine"].keys() == {"cores", "python", "system"}
    assert measured["tables"] == {"cpu": {"columns": ["a"], "rows": [[1]]}}
    head = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)
    assert measured["commit"] == (head.stdout.strip() or None)
