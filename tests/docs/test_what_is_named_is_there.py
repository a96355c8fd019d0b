"""Every command, endpoint, file and link of the documentation names what there is."""

import asyncio
import re
from typing import Any
from urllib.parse import unquote

import pytest

from radixway.core.config import Config
from radixway.core.config.renamed_keys import RENAMED_KEYS
from support.command_lines import address, commands, complaint, must_be_marked, program
from support.pages import BLOCKS, CHECKED, EXAMPLES_OF_CODE, EXECUTED, PAGES, PICTURES, ROOT, SHELL, Page
from support.routes import Routes, routes_of
from support.running_gateway import running_gateway

_NAMES = ("radixway", "make", "curl", "pip install", "python", "python3", "docker", "kubectl")
_PROGRAMS = (*(f"{name} " for name in _NAMES), ".venv/bin/")


BUILT = {
    path
    for name in re.findall(r"reference/\S+\.md", (ROOT / "mkdocs.yml").read_text())
    if not (path := ROOT / "docs" / name).exists()
}
"""Made of the code when the documentation is built, which fails where a link within it leads nowhere."""


SECTIONS = Config().model_dump(mode="json")
EVENTS = {"chat.created", "chat.titled", "chat.deleted"}
NO_KEYS = EVENTS | {"gateway.py", "engine.py", "tenants.limits"} | RENAMED_KEYS.keys()
"""Events, files, a part of `/health` and former names that are written like keys."""


@pytest.fixture(scope="module")
def routes() -> Routes:
    """Of a gateway in which everything is on that answers on paths of its own."""
    return asyncio.run(_routes())


async def _routes() -> Routes:
    on = {"enabled": True}
    async with running_gateway(semantic=on, semantic_cache=on, trajectories=on) as running:
        return await routes_of(running)


def test_every_block_says_what_it_is_written_in():
    known = EXECUTED | CHECKED | PICTURES | EXAMPLES_OF_CODE
    wrong = [f"{block} [{block.language}]" for block in BLOCKS if block.language not in known]
    assert not wrong, "\n".join(wrong)


def test_no_command_hides_in_a_block_of_plain_text():
    hidden = [
        f"{block}: {line}"
        for block in BLOCKS
        if block.language in PICTURES
        for line in block.text.splitlines()
        if line.removeprefix("$ ").startswith(_PROGRAMS)
    ]
    assert not hidden, "\n".join(hidden)


def test_commands_in_blocks_are_what_the_programs_take():
    wrong = [
        f"{block}: {' '.join(words)}: {told}"
        for block in BLOCKS
        if block.language in SHELL
        for words in commands(block.text if block.language != "console" else _typed(block.text))
        if (told := complaint(words))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_block_that_is_run_goes_on_for_ever_or_installs_anything():
    wrong = [
        f"{block}: {' '.join(words)}: mark the block, `<!-- not run: why -->` or `<!-- serves -->`"
        for block in BLOCKS
        if block.language in SHELL and not {"not run", "serves"} & block.notes.keys()
        for words in commands(block.text if block.language != "console" else _typed(block.text))
        if must_be_marked(words)
    ]
    assert not wrong, "\n".join(wrong)


def test_commands_in_sentences_are_what_the_programs_take():
    wrong = []
    for page in PAGES:
        for span in page.code_spans:
            if span.startswith(_PROGRAMS):
                for words in commands(span):
                    # `radixway audit show --user`, say: the sentence is about the option
                    said = [*words, "VALUE"] if words[-1].startswith("--") else words
                    if told := complaint(said):
                        wrong.append(f"{page.name}: `{span}`: {told}")
    assert not wrong, "\n".join(wrong)


def test_calls_by_curl_are_answered(routes: Routes):
    wrong = []
    for block in BLOCKS:
        if block.language in SHELL:
            for words in commands(block.text):
                called = address(words) if program(words) == "curl" else None
                if called is not None and not routes.answers(*called):
                    wrong.append(f"{block}: {called}")
    assert not wrong, "\n".join(wrong)


def test_endpoints_in_sentences_are_answered(routes: Routes):
    wrong = []
    for page in PAGES:
        for span in page.code_spans:
            for method, path in re.findall(r"^(GET|POST|PUT|PATCH|DELETE) (/[^\s`]*)", span):
                if not routes.answers(method, path):
                    wrong.append(f"{page.name}: {method} {path}")
    assert not wrong, "\n".join(wrong)


def test_files_in_sentences_are_there():
    wrong = []
    for page in PAGES:
        for span in page.code_spans:
            is_path = re.fullmatch(r"(src|tests|tools|docs|examples|benchmarks|deploy)/[\w./-]+", span)
            if is_path and not (ROOT / span).exists():
                wrong.append(f"{page.name}: {span}")
    assert not wrong, "\n".join(wrong)


def test_keys_of_the_configuration_in_sentences_are_there():
    wrong = []
    for page in PAGES:
        for span in page.code_spans:
            section, *rest = span.split(".")
            looks_like_one = section in SECTIONS and re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", span)
            if looks_like_one and span not in NO_KEYS and not _is_key(SECTIONS[section], rest):
                wrong.append(f"{page.name}: {span}")
    assert not wrong, "\n".join(wrong)


def test_metrics_in_sentences_are_there():
    """docs/metrics.md has them all, which another test holds against what is published."""
    known = set(
        re.findall(r"`((?:radixway|llm|inference|batch)_\w+)`", (ROOT / "docs/metrics.md").read_text())
    )
    wrong = [
        f"{page.name}: {name}"
        for page in PAGES
        if not page.name.startswith("examples")
        for span in page.code_spans
        if (name := re.match(r"radixway_\w+(?=\{|$)", span)) and name[0] not in known
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Page):
    wrong = []
    here = (ROOT / page.name).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", page.prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        there = (here / path) if path else ROOT / page.name
        if (here / path).resolve() in BUILT:
            continue
        if not there.exists():
            wrong.append(target)
        elif anchor and there.suffix == ".md" and anchor not in _anchors(there.read_text()):
            wrong.append(f"{target}: no such heading")
    assert not wrong, "\n".join(wrong)


def _is_key(node: Any, parts: list[str]) -> bool:
    """Whether the configuration has it; any will do below names, and below what is nothing by default."""
    if not parts:
        return True
    if not isinstance(node, dict) or not node:
        return node is None or node == {} or node == []
    return parts[0] in node and _is_key(node[parts[0]], parts[1:])


def _typed(console: str) -> str:
    return "\n".join(line for line in console.splitlines() if line.startswith("$ "))


def _anchors(text: str) -> set[str]:
    """Of its headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ +(.*?)(?: +\{#([\w-]+)\})? *$", text, re.MULTILINE)
    made = {given or re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title, given in headings}
    return made | {re.sub(r"-+", "-", name) for name in made} | set(re.findall(r'<a id="([\w-]+)"', text))
