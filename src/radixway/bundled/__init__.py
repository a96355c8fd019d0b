"""Data that ships: the demonstration model, classifier heads, word lists, attack patterns, prompts."""

import tomllib
from pathlib import Path
from typing import Any


def read_text(name: str) -> str:
    """Read the file `name`, a path relative to this package."""
    return (Path(__file__).parent / name).read_text("utf-8")


def read_toml(name: str) -> dict[str, Any]:
    """Parse the TOML file `name`, a path relative to this package."""
    return tomllib.loads(read_text(name))
