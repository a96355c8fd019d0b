"""The pages of the documentation, and the fenced blocks in them.

What a reader does not see of a block stands in HTML comments right before it:

- `<!-- not run: why -->`: it is checked as far as that goes without running it.
- `<!-- setup: … -->`: lines in the block's own language that run before it; for YAML, files by name.
- `<!-- refused -->`: its calls are refused, as the page says.
- `<!-- serves -->`: its commands serve until they are told to stop.
- `<!-- fragment of: a.b -->`: a piece of YAML that stands there in radixway.yaml.
- `<!-- output -->`: what the block before it prints, `…` for anything.

and once in a page `<!-- gateway: {…} -->`, how the gateway is configured that its commands find:
as radixway.yaml has it; `{up: true}`: by `make up`; `{up: true, in: FOLDER}`: by `radixway up` there.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)(```+)([\w+-]*)")
_NOTE = re.compile(r"<!--\s*(not run|setup|refused|serves|fragment of|output)\b:?\s*(.*?)\s*-->", re.DOTALL)
_GATEWAY = re.compile(r"<!--\s*gateway:\s*(\{.*?\})\s*-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read_json(text: str) -> Any:
    """JSON as pages show it, with `…` for anything; several objects, a line each, as a list."""
    text = re.sub(r"([\[{])…(?=[\]}])", r"\1", text)
    text = re.sub(r"(?<=[:\[ ])…(?=[,\]}\s])", "null", text)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


@dataclass(frozen=True)
class Page:
    """A file of Markdown; `name` is its path from the root."""

    name: str

    @cached_property
    def text(self) -> str:
        return (ROOT / self.name).read_text()

    @cached_property
    def blocks(self) -> list[Block]:
        lines = self.text.splitlines()
        found, at = [], 0
        while at < len(lines):
            if fence := _FENCE.match(lines[at]):
                end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == fence[2]), len(lines))
                inside = textwrap.dedent("\n".join(lines[at + 1 : end])) + "\n"
                found.append(Block(self.name, at + 1, fence[3], inside, _notes_before(lines, at)))
                at = end
            at += 1
        return found

    @cached_property
    def prose(self) -> str:
        """All that is in no block."""
        kept, fence = [], ""
        for line in self.text.splitlines():
            if fence:
                if line.strip() == fence:
                    fence = ""
            elif opened := _FENCE.match(line):
                fence = opened[2]
            else:
                kept.append(line)
        return "\n".join(kept)

    @cached_property
    def code_spans(self) -> list[str]:
        """What stands between backticks in the prose."""
        return [span.replace("\\|", "|") for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", self.prose)]

    @cached_property
    def gateway(self) -> dict[str, Any]:
        """The configuration of the gateway that its commands find."""
        given = _GATEWAY.search(self.text)
        return {} if given is None else yaml.safe_load(given[1])


def _notes_before(lines: list[str], at: int) -> dict[str, str]:
    """The comments that end right above line `at`, blank lines or none between."""
    notes: dict[str, str] = {}
    while True:
        while at and not lines[at - 1].strip():
            at -= 1
        if not at or not lines[at - 1].rstrip().endswith("-->"):
            return notes
        first = at - 1
        while first and "<!--" not in lines[first]:
            first -= 1
        for name, said in _NOTE.findall("\n".join(lines[first:at])):
            notes[name] = said
        at = first


def _pages() -> list[Page]:
    files = [ROOT / "CONTRIBUTING.md", *ROOT.glob("README*.md")]
    for folder in ("docs", "examples", "benchmarks", "deploy"):
        files += (ROOT / folder).rglob("*.md")
    return [Page(str(path.relative_to(ROOT))) for path in sorted(files)]


PAGES = _pages()
BLOCKS = [block for page in PAGES for block in page.blocks]
SHELL = {"bash", "sh", "console"}
EXECUTED = SHELL | {"python"}
CHECKED = {"yaml", "json"}
PICTURES = {"text", "mermaid"}
"""Figures, and what commands print."""
EXAMPLES_OF_CODE = {
    "jinja",
    "promql",
    "toml",
    "dockerfile",
    "nginx",
    "xml",
    "ini",
    "diff",
    "html",
    "csv",
    "proto",
}
"""In which nothing of ours is said; they are left as they are."""
