"""Published scores of well-known models, for `shipped_scores`."""

import re
from collections.abc import Mapping
from functools import cache

from radixway.bundled import read_toml
from radixway.core.config.semantic.models import CATEGORIES

_VENDOR = re.compile(r"^meta-")
_VARIANT = re.compile(
    r"[-.](instruct|chat|it|hf|gguf|awq|gptq|bnb|fp8|fp4|nvfp4|mxfp4|bf16|fp16|w\d+a\d+|[48]bit|int[48]"
    r"|q\d([-_][a-z0-9]+)*|dynamic|quantized)(?=[-.]|$)"
)


def short_model_name(name: str) -> str:
    """Return `name` without what its scores do not depend on: organisation, case, format, `instruct`.

    `meta-llama/Llama-3.1-8B-Instruct-AWQ` and `Meta-Llama-3_1-8B-Instruct` are both `llama-3.1-8b`.
    """
    short = name.rpartition("/")[2].lower()
    short = re.sub(r"(?<=\d)_(?=\d)", ".", short).replace("_", "-").replace(" ", "-")
    return _VARIANT.sub("", _VENDOR.sub("", short))


def find_published_scores(name: str) -> Mapping[str, float] | None:
    """Return the published accuracy of the model called `name` by category; None if it is not known."""
    return _published_scores().get(short_model_name(name))


@cache
def _published_scores() -> dict[str, Mapping[str, float]]:
    tables = read_toml("model_scores.toml")
    scores: dict[str, Mapping[str, float]] = tables["by_category"]
    return scores | {name: dict.fromkeys(CATEGORIES, share) for name, share in tables["overall"].items()}
