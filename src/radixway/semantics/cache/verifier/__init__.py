"""Decides whether two questions that a vector search brought together have the same answer.

Cosine knows what a text is about, not what it says of it: `London to Paris` and `Paris to London` are .993 apart
from 1. Single rules tell such pairs apart; what no rule decides is weighed by a trained head over what
`pair_features` and `chinese_features` read. All of it is a function of the two texts and their cosine.
"""

from radixway.semantics.cache.verifier.verdict import (
    VerifierVerdict,
    Verify,
    bundled_head,
    verify,
    verify_blind,
)

__all__ = ["VerifierVerdict", "Verify", "bundled_head", "verify", "verify_blind"]
