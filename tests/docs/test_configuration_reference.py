"""The reference of the configuration: every key is told, and what it means."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest

from radixway.core.config import Config

TOOLS = Path(__file__).parents[2] / "tools" / "docs_site"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "configuration_reference", TOOLS / "configuration_reference.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_key_says_what_it_means(reference: ModuleType) -> None:
    assert reference.holes(Config) == []


def test_every_section_stands_there_with_its_keys(reference: ModuleType) -> None:
    page = reference.configuration_reference()
    for name in Config.model_fields:
        assert f"- [`{name}`](#" in page
    for key in (
        "request_timeout_s",
        "overlap_weight",
        "similarity_threshold",
        "pii_types_allowed",
        "lease_s",
    ):
        assert f"`{key}`" in page
    assert "| `port` | integer (≥ 0, ≤ 65,535) | `30000` |" in page


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int | None, "integer or null"),
        (tuple[str, ...], "list of texts"),
        (dict[str, float], "mapping of numbers"),
        (Literal["off", "report"], "`off` or `report`"),
        (bool, "true or false"),
    ],
)
def test_types_are_told_in_words(reference: ModuleType, annotation: object, words: str) -> None:
    assert reference.type_in_words(annotation) == words
