"""What is asked for: who, when, where, why, how, how much, whether, or that something be done."""

import re
from functools import lru_cache

from radixway.semantics.cache.verifier.lexicon import ENGLISH
from radixway.semantics.cache.verifier.parsed_text import ParsedText

_FINDERS = tuple(
    (kind, re.compile(rf"\b(?:{pattern})\b")) for kind, pattern in ENGLISH["question_kinds"].items()
)
_WHETHER = re.compile(
    r"^(?:and |but |so )?(?:is|are|was|were|do|does|did|has|have|had|will|would|should|shall|must|may|might|am)\b"
)
_GENERIC = re.compile(r"^(?:what|which)\b|\bwhat\b|\bwhich\b")
_OUGHT = re.compile(r"\b(?:should|must|ought|have to|need to|supposed to|required to)\b")
_TASK = re.compile(
    r"^(write|summari[sz]e|translate|list|draw|compose|generate|create|make|convert|rewrite|paraphrase|implement|fix|"
    r"debug|refactor|optimi[sz]e|classify|extract|compare|describe|explain|define|calculate|compute|solve|prove|plan|"
    r"recommend|suggest|give|show|find|name|design|play|stop|open|close|turn|set|cancel|delete|add|remove|remind|book|"
    r"order|call|send|buy|check|change|update|repeat|spell|continue|shorten|expand|simplify|proofread|outline|review)\b"
)
NARROW = frozenset({"time", "place", "person", "reason", "quantity", "duration", "distance"})
"""Kinds that ask for one particular thing."""
_TELLING = frozenset({"describe", "explain", "define", "give", "show", "name", "find", "list", "calculate", "compute",
                      "solve", "check", "compare"})  # fmt: skip
"""Tasks that ask for the same as a question with `what` or `how`."""
_COMPATIBLE = frozenset(
    map(frozenset, (("manner", "what"), ("manner", "task"), ("place", "what"), ("time", "what"), ("person", "what"),
                    ("quantity", "what"), ("duration", "what"), ("distance", "what"), ("reason", "what"),
                    ("manner", "telling"), ("what", "telling"), ("reason", "telling"), ("duration", "quantity"),
                    ("duration", "distance"), ("distance", "quantity"), ("statement", "what"),
                    ("statement", "manner"), ("statement", "telling"), ("statement", "task"),
                    ("person", "telling"), ("place", "telling"), ("quantity", "telling"), ("time", "telling"),
                    ("statement", "time"), ("statement", "place"), ("statement", "person"),
                    ("statement", "quantity"), ("statement", "reason"), ("statement", "whether"),
                    ("statement", "duration"), ("statement", "distance")))
)  # fmt: skip


def ask_differently(one: ParsedText, other: ParsedText) -> bool:
    """Return whether the texts ask for different things about the same."""
    mine, theirs = question_kinds(one), question_kinds(other)
    if not mine & theirs and not any(frozenset((a, b)) in _COMPATIBLE for a in mine for b in theirs):
        return True
    return _asks_for_advice(one) != _asks_for_advice(other) and bool(
        "task" in mine or "whether" in mine | theirs
    )


def ask_opposites(one: ParsedText, other: ParsedText) -> bool:
    """Return whether one text asks for one particular thing and the other for another: when, and where."""
    mine, theirs = question_kinds(one), question_kinds(other)
    if not (mine <= NARROW and theirs <= NARROW) or mine & theirs:
        return False
    return not any(frozenset((a, b)) in _COMPATIBLE for a in mine for b in theirs)


def question_kinds(text: ParsedText) -> frozenset[str]:
    """Return what is asked for, by the words that ask; several where it could be either."""
    return _question_kinds(" ".join(text.words))


@lru_cache(maxsize=4096)
def _question_kinds(lower: str) -> frozenset[str]:
    task = _TASK.match(lower)
    if task:
        return frozenset({"telling" if task.group(1) in _TELLING else "task"})
    found = {kind for kind, pattern in _FINDERS if pattern.search(lower)}
    first = next((kind for kind, pattern in _FINDERS if pattern.match(lower)), None)
    if first is not None:
        return frozenset({first})
    if _WHETHER.match(lower):
        return frozenset({"whether"})
    if found:
        return frozenset(found | ({"what"} if _GENERIC.search(lower) else set()))
    return frozenset({"what"}) if _GENERIC.search(lower) else frozenset({"statement"})


def _asks_for_advice(text: ParsedText) -> bool:
    return _OUGHT.search(" ".join(text.words)) is not None
