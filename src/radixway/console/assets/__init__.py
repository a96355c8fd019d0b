"""Style and script of the pages: served from here, nothing from anywhere else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from radixway.console.page import BASE

__all__ = ["DIRECTORY", "script_url", "stylesheet_url"]

DIRECTORY = Path(__file__).parent


def stylesheet_url() -> str:
    """The address of the style."""
    return _versioned_url("console.css")


def script_url() -> str:
    """The address of the script."""
    return _versioned_url("console.js")


@cache
def _versioned_url(name: str) -> str:
    """With a mark of its content, so that browsers may keep it."""
    return f"{BASE}/assets/{name}?{xxh3_64_hexdigest((DIRECTORY / name).read_bytes())}"
