"""What became of a request's tools, in words for the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Raw

from radixway.semantic.tools.selection import Selection

_BYTES_PER_TOKEN = 4


@dataclass(slots=True)
class Offer:
    """Filled while tools are selected."""

    source: Literal["database", "client"]
    of: Sequence[Raw]
    """What there was to choose from."""
    offered: Sequence[Raw] = ()
    outcome: str = "selected"
    """Or `none_good_enough`, `no_text`, `failed`, `unread`: the list is being read for the first time."""
    names: Sequence[str] = ()
    selection: Selection | None = None
    took_s: float = 0.0

    def explain(self) -> dict[str, Any]:
        """Names of tools and figures, no text. Tokens are estimated as four bytes each."""
        before, after = _tokens(self.of), _tokens(self.offered)
        told: dict[str, Any] = {
            "source": self.source,
            "outcome": self.outcome,
            "of": len(self.of),
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


def _tokens(definitions: Sequence[Raw]) -> int:
    return sum(len(bytes(definition)) for definition in definitions) // _BYTES_PER_TOKEN
