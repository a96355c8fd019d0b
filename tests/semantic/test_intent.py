"""What the classification API says of a decision."""

from unittest.mock import Mock

import pytest

from radixway.semantic.classification.intent import Intent
from radixway.semantic.decide import Verdict
from radixway.semantic.signals.base import Domain, Signals


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
    domain = Domain("law", 0.4, {"law": 0.4, "history": 0.6}, 0.9)
    intent = Intent(Mock(), domain, Signals(), Verdict(), Mock())
    assert intent.routing_decision(threshold) == said
