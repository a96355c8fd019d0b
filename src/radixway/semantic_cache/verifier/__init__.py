"""Whether two questions that a vector search brought together have the same answer.

Cosine knows what a text is about, not what it says of it: `London to Paris` and `Paris to London` are .993 apart
from 1. Single rules, a file each, tell such pairs apart; what no rule decides is judged by how much content only
one of the two has. Everything here is a pure function of the two texts and their cosine.
"""

from radixway.semantic_cache.verifier.verdict import Verdict, Verify, verify

__all__ = ["Verdict", "Verify", "verify"]
