"""What is thought of questions, when it matters, and how a service that does not answer is left alone."""

from __future__ import annotations

import pytest

from radixway.chat.safety import HARMLESS, SafetyVerdict, label_findings, parse_verdict
from radixway.chat.safety.safety_verdict import is_made_safe
from radixway.core.circuit_breaker import ConsecutiveFailureBreaker
from radixway.core.pipeline import AttackAssessment, PersonalDataSpan


@pytest.mark.parametrize(
    ("label", "levels"),
    [
        ("__needs_intervention__", [1, 2, 3]),
        ("__needs_caution__", [2, 3]),
        ("caution", [2, 3]),
        ("__possibly_needs_caution__", [2, 3]),
        ("attention", [3]),
        ("__casual__", []),
        ("", []),
    ],
)
def test_a_level_minds_what_the_overviews_table_says(label: str, levels: list[int]) -> None:
    assert [level for level in range(4) if SafetyVerdict(label, "be kind").is_triggered(level)] == levels


@pytest.mark.parametrize(
    ("outputs", "verdict"),
    [
        ("<pad>__needs_caution__<sep>be kind.<sep>be safe</s>", ("__needs_caution__", "be kind and be safe")),
        ("<pad> __casual__</s>", ("__casual__", "")),
        ("<sep>caution<sep>avoid harmful content", ("caution", "avoid harmful content")),
        ("caution<sep>no\x00lines\nhere", ("caution", "no lines here")),
    ],
)
def test_a_services_words_are_read_as_published_and_as_in_the_overview(
    outputs: str, verdict: tuple[str, str]
) -> None:
    assert parse_verdict(outputs) == SafetyVerdict(*verdict)


@pytest.mark.parametrize("outputs", ["", "<pad></s>", "<sep>", "x" * 1000])
def test_what_has_no_label_is_no_verdict(outputs: str) -> None:
    with pytest.raises(ValueError, match="label"):
        parse_verdict(outputs)


def test_a_question_is_made_safe_in_the_published_words() -> None:
    safe = SafetyVerdict("caution", "be kind").rewrite_prompt("How?")
    words = (
        "Answer the following request with caution as responsible chatbot that believes that be kind: How?"
    )
    assert safe == words and is_made_safe(safe, "How?")
    assert not is_made_safe("<|prompter|>" + safe, "How?") and not is_made_safe(safe, "Why?")


def attack(kind: str, risk: float) -> AttackAssessment:
    return AttackAssessment(risk, {kind: risk, "prompt_injection": risk / 2})


@pytest.mark.parametrize(
    ("attacks", "types", "label"),
    [
        ([], [], "casual"),
        ([("instruction_override", 0.9)], ["CREDIT_CARD"], "intervention"),
        ([("adversarial_prompt", 0.7)], [], "intervention"),
        ([("social_engineering", 0.9)], [], "caution"),
        ([("instruction_override", 0.6)], [], "attention"),
        ([("instruction_override", 0.6)], ["US_SSN"], "caution"),
        ([("instruction_override", 0.4)], ["PERSON", "GPE", "DATE_TIME"], "casual"),
        ([], ["EMAIL_ADDRESS"], "discretion"),
    ],
)
def test_the_gravest_finding_of_the_guard_gives_the_label(
    attacks: list[tuple[str, float]], types: list[str], label: str
) -> None:
    personal = [PersonalDataSpan(each, 0, 5, 0.9) for each in types]
    verdict = label_findings([attack(*each) for each in attacks], personal, 0.7, 0.8)
    assert verdict.label == label
    assert bool(verdict.rots) == (verdict != HARMLESS)


def test_a_finding_that_is_not_sure_counts_for_nothing_and_rules_are_told_once() -> None:
    assert label_findings([], [PersonalDataSpan("CREDIT_CARD", 0, 5, 0.5)], 0.7, 0.8) == HARMLESS
    both = label_findings([attack("prompt_injection", 0.9), attack("prompt_injection", 0.8)], [], 0.7, 0.8)
    assert both.rots == "it is wrong to pretend to be somebody else"


def test_a_service_that_fails_is_left_alone_for_a_while_and_then_tried_by_one() -> None:
    breaker = ConsecutiveFailureBreaker(2, open_s=10)
    breaker.record_failure(0)
    assert breaker.admits(0)
    breaker.record_failure(1)
    assert not breaker.admits(5)
    assert [breaker.admits(11), breaker.admits(11)] == [True, False]
    breaker.record_failure(12)
    assert not breaker.admits(21) and breaker.admits(22)
    breaker.record_success()
    assert breaker.admits(22) and breaker.admits(22)
