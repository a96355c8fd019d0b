"""docs/architecture.md, and the package docstrings that name files, held against the code."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from support.pages import ROOT

SOURCE = ROOT / "src" / "radixway"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
_QUOTED = re.compile(r"`([^`]+)`")
_PATH = re.compile(r"[\w./]+(?:\.py|/)")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)?")
_MAX_FILES = 3


def _section(title: str) -> str:
    return re.split(r"^##+ ", PAGE.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def _rows(title: str) -> list[list[str]]:
    """The cells of a section's rows, without the head."""
    lines = [line for line in _section(title).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells[2:] if len(row) > 1 and not set(row[0]) <= set("|-")]


@cache
def _names(path: Path) -> frozenset[str]:
    """What a file defines: functions, classes, constants, and members as `Class.member`."""
    found: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            found.update(prefix + each.id for each in targets if isinstance(each, ast.Name))

    collect(ast.parse(path.read_text()).body, "")
    return frozenset(found)


def _places(text: str) -> list[tuple[str, str | None]]:
    """Each path in a line, then each name that follows it there, with the path."""
    found: list[tuple[str, str | None]] = []
    path = None
    for quoted in _QUOTED.findall(text):
        if _PATH.fullmatch(quoted) and not quoted.startswith("/"):
            path = quoted
            found.append((path, None))
        elif path is not None and path.endswith(".py") and _NAME.fullmatch(quoted):
            found.append((path, quoted))
    return found


def _paths(text: str) -> list[str]:
    return [path for path, name in _places(text) if name is None]


PLACES = sorted({place for line in PAGE.splitlines() for place in _places(line)}, key=str)


@pytest.mark.parametrize(("path", "name"), PLACES, ids=lambda part: part or "-")
def test_every_file_and_name_exists(path: str, name: str | None):
    assert (SOURCE / path).exists() or (ROOT / path).exists()
    if name is not None:
        assert name in _names(SOURCE / path), f"{path} defines no {name}"


def test_every_package_has_a_row():
    packages = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    assert {_paths(row[0])[0] for row in _rows("Packages")} == packages


def test_the_layers_are_those_of_the_import_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    shown = _section("Packages").partition("```text\n")[2].partition("```")[0].split("\n")
    assert [line.strip() for line in shown if line] == [layer.replace("radixway.", "") for layer in layers]


@pytest.mark.parametrize(
    "question",
    [
        "worker",
        "tried again",
        "KV page",
        "chat token",
        "endpoint",
        "policy",
        "personal data",
        "signal",
        "metric",
    ],
)
def test_each_question_is_answered_within_three_files(question: str):
    (answer,) = [row[1] for row in _rows("You want to change …") if question in row[0]]
    files = {path for path in _paths(answer) if path.endswith(".py")}
    assert len(files) <= _MAX_FILES
    assert files or "(#a-request-is-tried-again)" in answer


def test_each_way_of_trying_again_names_its_functions():
    rows = _rows("A request is tried again")
    assert len(rows) == 8
    for row in rows:
        named = [name for _, name in _places(row[-1]) if name is not None]
        assert named and len(set(_paths(row[-1]))) <= _MAX_FILES


FRONT_PAGES = sorted(SOURCE.rglob("__init__.py"))


@pytest.mark.parametrize("page", FRONT_PAGES, ids=lambda page: str(page.parent.relative_to(SOURCE)))
def test_files_that_a_front_page_names_exist(page: Path):
    said = ast.get_docstring(ast.parse(page.read_text())) or ""
    roots = (page.parent, page.parent.parent, SOURCE, ROOT)
    files = [quoted for quoted in _QUOTED.findall(said) if re.fullmatch(r"[\w./]+\.py", quoted)]
    missing = [file for file in files if not any((root / file).is_file() for root in roots)]
    assert missing == []
