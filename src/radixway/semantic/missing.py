"""Models that a `config.yaml` names and this machine does not have: what stands in for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from radixway.config.semantic import SemanticConfig

log = logging.getLogger(__name__)

_HEADS = "the shipped head is used"
_GUARD = "the shipped guard is used"


def find_missing_models(section: SemanticConfig) -> Iterator[tuple[str, str]]:
    """What is named and not there, and what happens instead. Looks at files; no hub is asked."""
    classifier, guard = section.classifier, section.prompt_guard
    named = [
        (classifier.category_model.model_id, _HEADS),
        (classifier.pii_model.model_id, _GUARD),
        (guard.model_id if guard is not None else "", _GUARD),
        (section.embedding_models.qwen3_model_path, "the encoder under `encoders` is used"),
        (section.embedding_models.gemma_model_path, "the encoder under `encoders` is used"),
        (_tools_database(section), "no tools are selected from it"),
    ]
    for name, instead in named:
        if name and not Path(name).exists():
            yield name, f"{name} is not on this machine: {instead}"
    if section.classifier.mcp_category_model.enabled:
        yield "mcp_category_model", f"classifier.mcp_category_model is not supported: {_HEADS}"
    for kind, given in (
        ("fact_check", section.signals.fact_check),
        ("user_feedbacks", section.signals.user_feedbacks),
        ("preferences", section.signals.preferences),
    ):
        if given:
            yield f"signals.{kind}", f"signals.{kind} are not read here: conditions on them never hold"


class MissingModelWarnings:
    """Warns of each once, however often the configuration is read."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def warn_once(self, section: SemanticConfig) -> None:
        """Say what is missing that was not said before."""
        for name, text in find_missing_models(section):
            if name not in self._told:
                self._told.add(name)
                log.warning("semantic: %s", text)


def _tools_database(section: SemanticConfig) -> str:
    tools = section.tools
    return tools.tools_db_path or "" if tools is not None and tools.enabled else ""
