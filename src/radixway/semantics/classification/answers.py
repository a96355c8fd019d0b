"""`options` of questions about texts, as the published API takes them; what is not known is left unread.

Answers to questions about texts, as the published API gives them.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from radixway.core.pipeline import AttackAssessment, AttackJudge, PersonalDataFinder, PersonalDataSpan
from radixway.semantics.classification.intent import TextIntent

Task = Literal["intent", "pii", "security"]
Share = Annotated[float, Meta(ge=0, le=1)]


class IntentOptions(msgspec.Struct):
    """`options` of an intent."""

    return_probabilities: bool = False
    confidence_threshold: Share | None = None
    include_explanation: bool = False


class PiiOptions(msgspec.Struct):
    """`options` of personal data."""

    entity_types: list[str] = []
    """Only these; none or `ALL`: all that can be found."""
    confidence_threshold: Share | None = None
    return_positions: bool = False
    mask_entities: bool = False


class SecurityOptions(msgspec.Struct):
    """`options` of attacks."""

    detection_types: list[str] = []
    sensitivity: Literal["low", "medium", "high"] = "medium"
    include_reasoning: bool = False


class ClassificationOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of every task, by task."""

    intent: IntentOptions = msgspec.field(default_factory=IntentOptions)
    pii: PiiOptions = msgspec.field(default_factory=PiiOptions)
    security: SecurityOptions = msgspec.field(default_factory=SecurityOptions)


_TYPES = {"EMAIL": "EMAIL_ADDRESS", "PHONE": "PHONE_NUMBER", "SSN": "US_SSN", "LOCATION": "GPE"}
"""Short names in the published examples."""
_SENSITIVITY = {"low": 0.2, "medium": 0.0, "high": -0.2}
"""Offset of the classifier's threshold."""


class UnknownTypesError(Exception):
    """None of the wanted types are known."""

    def __init__(self, field: str, known: Sequence[str]) -> None:
        """`field`: of the options."""
        super().__init__(f"none of these can be told here; known are {', '.join(sorted(known))}")
        self.field = field


def intent_answer(intent: TextIntent, options: IntentOptions, time_ms: int) -> dict[str, Any]:
    """`/classify/intent`: the classifier's word, and the decision where one can be made."""
    assert intent.domain is not None
    classification: dict[str, Any] = {
        "category": intent.domain.label,
        "confidence": intent.domain.confidence,
        "entropy": intent.domain.entropy,
        "processing_time_ms": time_ms,
    }
    answer: dict[str, Any] = {"classification": classification}
    if options.return_probabilities:
        answer["probabilities"] = dict(sorted(intent.domain.distribution.items(), key=lambda item: -item[1]))
    answer |= {
        "recommended_model": intent.model,
        "routing_decision": intent.routing_decision(options.confidence_threshold),
        "matched_signals": intent.matched_signals(),
    }
    if intent.snapshot.section.is_on:
        answer["decision"] = intent.decision_summary()
    if options.include_explanation:
        answer["explanation"] = intent.explain()
    return answer


def pii_answer(
    text: str,
    found: Sequence[PersonalDataSpan],
    finder: PersonalDataFinder,
    options: PiiOptions,
    time_ms: int,
) -> dict[str, Any]:
    """`/classify/pii`: findings of the wanted types that are sure enough."""
    wanted = {_TYPES.get(name.upper(), name.upper()) for name in options.entity_types} - {"ALL"}
    threshold = finder.threshold if options.confidence_threshold is None else options.confidence_threshold
    spans = [span for span in found if span.confidence >= threshold and (not wanted or span.type in wanted)]
    answer: dict[str, Any] = {
        "has_pii": bool(spans),
        "entities": [_entity_answer(text, span, options) for span in spans],
    }
    if options.mask_entities:
        answer["masked_text"] = mask_findings(text, spans)
    answer |= {
        "security_recommendation": "block" if spans else "allow",
        "processing_time_ms": time_ms,
    }
    return answer | _unchecked_types("entity_types", wanted, finder.types)


def security_answer(
    attack: AttackAssessment, judge: AttackJudge, options: SecurityOptions, time_ms: int
) -> dict[str, Any]:
    """`/classify/security`: an attack is what reaches the threshold, which the sensitivity moves."""
    threshold = min(1.0, max(0.0, judge.threshold + _SENSITIVITY[options.sensitivity]))
    wanted = set(options.detection_types)
    known = {kind: share for kind, share in attack.kinds.items() if not wanted or kind in wanted}
    risk = max(known.values(), default=0.0) if wanted else attack.risk
    found = risk >= threshold
    answer: dict[str, Any] = {
        "is_jailbreak": found,
        "risk_score": risk,
        "detection_types": [kind for kind, share in known.items() if share >= threshold],
        "confidence": risk if found else 1 - risk,
        "recommendation": "block" if found else "allow",
        "patterns_detected": list(attack.patterns),
        "processing_time_ms": time_ms,
    }
    if options.include_reasoning:
        shares = ", ".join(f"{kind} {share:.3f}" for kind, share in known.items())
        answer["reasoning"] = (
            f"{shares}: the highest of {attack.parts} part{'s' * (attack.parts > 1)} of the text; "
            f"an attack from {threshold:.2f}"
        )
    return answer | _unchecked_types("detection_types", wanted, judge.kinds)


def mask_findings(text: str, found: Sequence[PersonalDataSpan]) -> str:
    """The text with every finding replaced by its type in brackets; findings in order, none overlapping."""
    parts, at = [], 0
    for each in found:
        parts += [text[at : each.begin], f"[{each.type}]"]
        at = each.end
    return "".join([*parts, text[at:]])


def _entity_answer(text: str, found: PersonalDataSpan, options: PiiOptions) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "type": found.type,
        "value": text[found.begin : found.end],
        "confidence": found.confidence,
    }
    if options.return_positions:
        answer |= {"start_position": found.begin, "end_position": found.end}
    if options.mask_entities:
        answer["masked_value"] = f"[{found.type}]"
    return answer


def _unchecked_types(field: str, wanted: set[str], known: Sequence[str]) -> dict[str, Any]:
    """Report types that were asked for and not checked. Raises UnknownTypesError if those are all."""
    unknown = sorted(wanted - set(known))
    if unknown and len(unknown) == len(wanted):
        raise UnknownTypesError(field, known)
    return {f"unknown_{field}": unknown} if unknown else {}
