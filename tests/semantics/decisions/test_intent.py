"""What the classification API says of a decision."""

from unittest.mock import Mock

import pytest

from radixway.semantics.classification.intent import TextIntent
from radixway.semantics.decisions.verdict import DecisionVerdict
from radixway.semantics.signals.base import DomainValue, SignalSet


@pytest.mark.parametrize(
    ("threshold", "said"),
    [
        (None, "low_confidence_general"),
        (0.5, "low_confidence_general"),
        (0.4, "high_confidence_specialized"),
        (0.0, "high_confidence_specialized"),
    ],
)
def test_a_confidence_is_high_from_the_callers_threshold_on_even_if_that_is_nothing(threshold, said):
    domain = DomainValue("law", 0.4, {"law": 0.4, "history": 0.6}, 0.9)
    intent = TextIntent(Mock(), domain, SignalSet(), DecisionVerdict(), Mock())
    assert intent.routing_decision(threshold) == said
