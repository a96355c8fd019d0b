"""Safety verdicts, the level at which each matters, and the rewritten prompt: all as published."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPENING = "Answer the following request with "
_LONGEST_LABEL, _LONGEST_ROTS = 100, 2000
"""Characters: what a service says becomes part of a prompt."""


@dataclass(frozen=True, slots=True)
class SafetyVerdict:
    """A label with rules of thumb ("rots"), in the words of ProsocialDialog (Kim et al., 2022)."""

    label: str
    rots: str

    def is_triggered(self, level: int) -> bool:
        """Return whether the label matters at `level`: 1 minds interventions, 2 also cautions, 3 all but
        `casual`.
        """
        if "intervention" in self.label:
            return level > 0
        if "caution" in self.label:
            return level > 1
        return bool(self.label) and "casual" not in self.label and level > 2

    def rewrite_prompt(self, request: str) -> str:
        """Return `request` in the published words."""
        belief = f" that believes that {self.rots}" if self.rots else ""
        return f"{_OPENING}{self.label} as responsible chatbot{belief}: {request}"


HARMLESS = SafetyVerdict("casual", "")


def is_made_safe(prompt: str, request: str) -> bool:
    """Return whether `prompt` is exactly `request`, made safe."""
    return prompt.startswith(_OPENING) and prompt.endswith(request)


def parse_verdict(outputs: str) -> SafetyVerdict:
    """Parse `outputs`: `<pad>__label__<sep>rot<sep>rot</s>`, or the overview's `<sep>label<sep>rot`.

    Raises ValueError: there is no label.
    """
    bare = re.sub(r"<pad>|</s>|[\x00-\x1f]", " ", outputs)
    label, *rots = [part.strip(" .") for part in bare.split("<sep>") if part.strip(" .")] or [""]
    if not label or len(label) > _LONGEST_LABEL:
        raise ValueError("a safety verdict begins with a label")
    return SafetyVerdict(label, " and ".join(rots)[:_LONGEST_ROTS])
