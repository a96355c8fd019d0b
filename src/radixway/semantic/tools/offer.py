"""What became of a request's tools, in words for the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from radixway.semantic.tools.selection import ToolSelectionResult

_BYTES_PER_TOKEN = 4


@dataclass(slots=True)
class ToolOffer:
    """Filled while tools are selected."""

    source: Literal["database", "client"]
    of: int
    """How many there were to choose from."""
    bytes_before: int
    """Of their definitions."""
    bytes_after: int = 0
    """Of those offered."""
    outcome: str = "selected"
    """Or `none_good_enough`, `no_text`, `failed`, `unread`: the list is being read for the first time."""
    names: Sequence[str] = ()
    selection: ToolSelectionResult | None = None
    took_s: float = 0.0

    def explain(self) -> dict[str, Any]:
        """Names of tools and figures, no text. Tokens are estimated as four bytes each."""
        before, after = self.bytes_before // _BYTES_PER_TOKEN, self.bytes_after // _BYTES_PER_TOKEN
        told: dict[str, Any] = {
            "source": self.source,
            "outcome": self.outcome,
            "of": self.of,
            "offered": list(self.names),
            "tokens_before": before,
            "tokens_after": after,
            "tokens_saved": before - after,
            "took_ms": round(self.took_s * 1e3, 3),
        }
        if self.selection is not None:
            told["called_before"] = len(self.selection.called)
            told["best_score"] = round(self.selection.best, 4)
            told["scores"] = [each.explain() for each in self.selection.chosen]
        return told
