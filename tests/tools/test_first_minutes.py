"""The tool that measures a newcomer's first minutes: what it counts as read and as printed."""

import subprocess
import sys
from pathlib import Path

import pytest

from first_minutes import (
    PLATFORM_JOB,
    PrintedOutput,
    count_words,
    empty_environment,
    measure_reading,
    show_table,
)

EVERYTHING = """
workers: [{url: http://gpu1}]
tenants: {a: {keys: [], quotas: {}}}
semantic: {config: rules.yaml}
guard: {pii: {}}
scale: {limits: {}}
telemetry: {tracing: {}}
"""


def write_pages(root: Path, **pages: str) -> None:
    for name, text in pages.items():
        page = root / "docs" / f"{name.replace('__', '/')}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)


def test_words_are_those_outside_of_code_comments_and_addresses(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Four words [are here](a/b.md).\n<!-- not this -->\n```bash\nnor this\n```\n| two | cells |\n"
    )
    assert count_words(page) == 6


def test_a_guide_that_shows_every_part_of_the_job_is_all_that_is_read(tmp_path):
    write_pages(
        tmp_path, guides__deployment=f"Do [this](../tenants.md).\n```yaml{EVERYTHING}```\n", tenants="x"
    )
    assert measure_reading(tmp_path) == {
        "words": 2,
        "parts_without_example": [],
        "pages": {"docs/guides/deployment.md": 2},
    }


def test_a_part_that_the_guide_does_not_show_is_read_on_the_page_most_about_it(tmp_path):
    write_pages(
        tmp_path,
        guides__deployment="See [all](../all.md) and [guard](../guard.md#a).",
        all=f"All keys.\n```yaml{EVERYTHING}```\n",
        guard="The guard reads it all.\n```yaml\nguard: {pii: {action: block}}\n```\n",
        unlinked=f"```yaml{EVERYTHING}```\n",
    )
    pages = measure_reading(tmp_path)["pages"]
    assert pages == {"docs/guides/deployment.md": 4, "docs/all.md": 2, "docs/guard.md": 5}


def test_a_part_that_no_page_shows_is_named(tmp_path):
    write_pages(tmp_path, guides__deployment="Nothing.")
    assert measure_reading(tmp_path)["parts_without_example"] == list(PLATFORM_JOB)


def test_the_environment_has_nothing_of_this_users_but_the_way_to_packages(tmp_path, monkeypatch):
    monkeypatch.setenv("RADIXWAY__GATEWAY__PORT", "1")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    env = empty_environment(tmp_path, None)
    assert env["HOME"] == str(tmp_path) and env["PIP_FIND_LINKS"] == "/wheels" and "PIP_NO_CACHE_DIR" in env
    assert not {"PYTHONPATH", "RADIXWAY__GATEWAY__PORT", "VIRTUAL_ENV"} & env.keys()


def test_every_line_is_counted_but_the_package_index_of_this_machine(tmp_path):
    script = "print('one'); print(\"WARNING: Location 'file:///x' is ignored\"); print('console /console')"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    printed = PrintedOutput()
    printed.read_from(process, tmp_path / "log").join(timeout=30)
    process.wait()
    assert printed.lines == ["one", "console /console"]
    assert printed.line_of("/console") == 2 and printed.line_of("two") is None


@pytest.mark.parametrize("beside", [None, {"commit": "old", "answer_s": 2.5}])
def test_the_table_has_a_row_for_each_figure_and_a_column_for_each_run(beside):
    table = show_table({"commit": "new", "answer_s": 1.5, "words": 20083, "pages": {"a.md": 1}}, beside)
    assert ("| answer_s | 2.5 | 1.5 |" if beside else "| answer_s | 1.5 |") in table
    assert "20,083" in table and "a.md" in table
