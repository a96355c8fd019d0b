"""All that the console says, in every language."""

import ast
import re
import tomllib
from pathlib import Path
from string import Formatter

import pytest

import radixway.console
from radixway.console.pages import PAGES
from radixway.console.texts import LANGUAGES, TEXTS, TextCatalog

ROOM = Path(radixway.console.__file__).parent
SOURCES = sorted(path for path in ROOM.rglob("*.py") if "texts" not in path.parts)
SHOWS = {
    *("label", "button", "input", "textarea", "select", "checkbox", "switch", "number", "radio", "toggle"),
    *("notify", "notification", "tooltip", "menu_item", "item", "set_text", "page_title", "markdown"),
    *("expansion",),
}
"""Calls whose first argument is read by people."""


def places(text):
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("key", TEXTS)
def test_a_text_says_something_with_the_same_places_in_each_language(key):
    said = [getattr(TEXTS[key], language) for language in LANGUAGES]
    assert all(text.strip() for text in said)
    assert len({frozenset(places(text)) for text in said}) == 1


def test_every_text_that_is_asked_for_is_there_and_every_page_has_a_name():
    asked = {
        call.args[0].value
        for path in SOURCES
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and (getattr(call.func, "attr", None) or getattr(call.func, "id", None)) == "say"
    }
    assert asked and asked | {f"page.{page.name}" for page in PAGES} <= TEXTS.keys()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_text_stands_in_a_page_itself(path):
    loose = [
        f"{path.name}:{given.lineno} {given.value!r}"
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", None) in SHOWS
        for given in [
            *call.args[:1],
            *(each.value for each in call.keywords if each.arg in ("label", "text")),
        ]
        if isinstance(given, ast.Constant) and isinstance(given.value, str)
        if re.search(r"[^\W\d_]{2}", given.value)
    ]
    assert loose == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_nicegui_is_not_given_addresses_that_it_would_put_the_base_before_again(path):
    twice = [
        f"{path.name}:{call.lineno}"
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("ui.navigate.to", "ui.link")
        if re.search(r"\blink\(|BASE", " ".join(map(ast.unparse, call.args)))
    ]
    assert twice == []


def test_no_two_pages_have_the_same_key_or_path():
    assert len({page.key for page in PAGES}) == len({page.path for page in PAGES}) == len(PAGES)


def test_places_are_filled_in():
    assert TextCatalog("en")("frame.refused", message="no") == "The gateway refused: no"


def test_no_key_stands_in_two_files():
    files = (ROOM / "texts").glob("*.toml")
    keys = [key for path in files for key in tomllib.loads(path.read_text("utf-8"))]
    assert len(keys) == len(set(keys)) == len(TEXTS)
