"""Safety verdicts, the level at which each matters, the rewritten prompt, and verdicts of the guard.

Labels and prompts are the published ones; the table of findings is that of docs/reference/chats.md.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from radixway.core.pipeline import AttackAssessment, PersonalDataSpan

_OPENING = "Answer the following request with "
_LONGEST_LABEL, _LONGEST_ROTS = 100, 2000
"""Characters: what a service says becomes part of a prompt."""


@dataclass(frozen=True, slots=True)
class SafetyVerdict:
    """A label with rules of thumb ("rots"), in the words of ProsocialDialog (Kim et al., 2022)."""

    label: str
    rots: str

    def is_triggered(self, level: int) -> bool:
        """Return whether the label matters: level 1: interventions, 2: cautions too, 3: all but `casual`."""
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


_SUSPICIOUS = 0.5
"""Risk that is too low for an attack and high enough for a warning."""
_CAUTION = frozenset({"social_engineering"})
"""Attacks that manipulate the assistant without taking control of it."""
_SECRETS = frozenset(
    {"CREDIT_CARD", "CN_BANK_CARD", "IBAN_CODE", "US_SSN", "CN_ID_CARD", "US_DRIVER_LICENSE"}
)
"""Personal data that is harmful in any hands."""
_REACHES = frozenset({"EMAIL_ADDRESS", "PHONE_NUMBER", "STREET_ADDRESS", "IP_ADDRESS"})
"""Data that leads to a person. Names, places and dates alone give no warning."""

RULES = {
    "prompt_injection": "it is wrong to pretend to be somebody else",
    "instruction_override": "it is wrong to break an agreement",
    "adversarial_prompt": "it is wrong to help with harm, in stories and games too",
    "social_engineering": "it is wrong to give in to pressure",
    "suspicious": "it is good to think twice",
    "secrets": "it is wrong to misuse what belongs to others",
    "personal_data": "it is wrong to gossip about others",
}
"""Rules of thumb. The guard in the pipeline reads them too: none may sound like an attack itself."""


def label_findings(
    attacks: Iterable[AttackAssessment],
    personal_data: Iterable[PersonalDataSpan],
    attack_threshold: float,
    personal_data_threshold: float,
) -> SafetyVerdict:
    """Return the gravest label among the findings, with the rules of thumb that lead to it."""
    found: dict[str, list[str]] = {"intervention": [], "caution": [], "attention": [], "discretion": []}
    for attack in attacks:
        if attack.risk >= attack_threshold:
            kind = max(attack.kinds, key=attack.kinds.__getitem__, default="adversarial_prompt")
            label = "caution" if kind in _CAUTION else "intervention"
            found[label].append(RULES.get(kind, RULES["adversarial_prompt"]))
        elif attack.risk >= _SUSPICIOUS:
            found["attention"].append(RULES["suspicious"])
    for span in personal_data:
        if span.confidence < personal_data_threshold:
            continue
        if span.type in _SECRETS:
            found["caution"].append(RULES["secrets"])
        elif span.type in _REACHES:
            found["discretion"].append(RULES["personal_data"])
    for label, rots in found.items():
        if rots:
            return SafetyVerdict(label, " and ".join(dict.fromkeys(rots)))
    return HARMLESS
