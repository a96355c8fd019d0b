"""English words without their endings."""

from __future__ import annotations

_ENDINGS = (
    ("ization", "iz"), ("isation", "iz"), ("ational", "at"), ("fulness", "ful"), ("iveness", "iv"), ("ousness", "ous"),
    ("ising", "iz"), ("ised", "iz"), ("ise", "iz"), ("izing", "iz"), ("ized", "iz"), ("ize", "iz"),
    ("ations", "at"), ("ation", "at"), ("ating", "at"), ("ated", "at"), ("ates", "at"), ("ate", "at"),
    ("ements", ""), ("ement", ""), ("ments", ""), ("ment", ""), ("ingly", ""), ("iest", ""), ("ies", ""),
    ("ied", ""), ("ings", ""), ("ing", ""), ("edly", ""), ("eed", "ee"), ("ed", ""), ("ers", ""), ("er", ""),
    ("est", ""), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("ously", "ous"),
    ("fully", "ful"), ("ably", "abl"), ("ally", "al"), ("ly", ""), ("es", ""), ("ss", "ss"), ("us", "us"),
    ("is", "is"), ("s", ""),
)  # fmt: skip


def strip_ending(word: str) -> str:
    """A word without its English ending. Crude on purpose: what comes out is only compared with its like."""
    if len(word) <= 3 or not word.isalpha():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sle":
        word = word[:-1]  # running, run
    return word[:-1] if len(word) > 3 and word[-1] in "ey" else word
