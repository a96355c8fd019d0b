"""Texts for benchmarks of the semantic layer: questions of a given length, no two alike."""

from __future__ import annotations

import random

_OPENINGS = (
    "How do I explain to a colleague",
    "What is the difference between",
    "Please compare",
    "Could you tell me why people confuse",
    "Write a short note on",
)
_SUBJECTS = (
    "enzymes", "interest rates", "the French Revolution", "eigenvalues", "a breach of contract",
    "Kant's ethics", "sorting algorithms", "friction on a slope", "acids and bases",
    "memory and attention", "high blood pressure", "supply chains", "beams under load",
    "train journeys", "photosynthesis", "inflation", "the Ming dynasty", "prime numbers",
    "tenancy agreements", "free will", "garbage collection", "magnetic fields", "covalent bonds",
)  # fmt: skip
_FILLERS = (
    "because", "when", "the", "figures", "of", "last", "year", "are", "looked", "at", "again", "in",
    "more", "detail", "and", "nobody", "agrees", "on", "what", "follows", "from", "them", "for", "our",
    "small", "town", "or", "school",
)  # fmt: skip


def question(tokens: int, rng: random.Random) -> str:
    """About so many word pieces."""
    first, second = rng.sample(_SUBJECTS, 2)
    words = [*rng.choice(_OPENINGS).split(), *first.split(), "and", *second.split()]
    while len(words) < tokens - 2:
        words.append(rng.choice(_FILLERS))
    return " ".join(words[: max(tokens - 1, 4)]) + "?"
