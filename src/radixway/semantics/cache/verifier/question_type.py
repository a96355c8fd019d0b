"""What is asked for: who, when, where, why, how, how much, whether, or that something be done."""

from __future__ import annotations

import re
from functools import lru_cache

from radixway.semantics.cache.verifier.parsed_text import ParsedText

_KINDS = (
    ("quantity", r"how (?:many|much)|what (?:number|amount|quantity|percentage|price)|number of|what does \w+ cost|cost of|price of"),
    ("duration", r"how long|how old|what age|age of|duration"),
    ("distance", r"how (?:far|high|tall|deep|big|large|heavy|hot|cold|fast|often|wide|thick)"),
    ("place", r"where|what (?:place|location|country|city)|in which (?:country|city|place)|which (?:country|city|place)|location of"),
    ("time", r"when|what (?:time|year|date|day|month)|in which year|which (?:year|day|date)|date of"),
    ("reason", r"why|how come|what (?:is|are|was|were) the (?:\w+ )?(?:reasons?|causes?)|reasons? (?:for|why|that|behind)|what (?:makes|made|causes?|caused)|for what reason|causes? of"),
    ("person", r"who(?:se|m)?|which (?:person|man|woman|author|president|scientist)|name of the (?:person|man|woman|author|inventor)"),
    ("manner", r"how (?:do|does|did|can|could|should|would|to|is|are|was|were|will|might|shall|may|i|you|we|one)|what (?:is|are) (?:the |an |a |some )?(?:\w+ )?(?:ways?|steps?|methods?|process|procedure|tips?)|(?:best|easiest|fastest|good|any|better|effective) (?:ways?|methods?|steps|tips)|is there (?:a|any|some)(?: \w+)? ?ways?|anyway|ways? (?:to|of)|steps? (?:to|for)|tips (?:for|on|to)|what (?:should|can|do|must) (?:i|you|we|one) do|(?:can|could) (?:i|we|one|someone)"),
)  # fmt: skip
_FINDERS = tuple((kind, re.compile(rf"\b(?:{pattern})\b")) for kind, pattern in _KINDS)
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
"""Tasks that ask for what a question with `what` or `how` asks for too."""
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
    """Whether the texts ask for different things about the same."""
    mine, theirs = question_kinds(one), question_kinds(other)
    if not mine & theirs and not any(frozenset((a, b)) in _COMPATIBLE for a in mine for b in theirs):
        return True
    return _asks_for_advice(one) != _asks_for_advice(other) and bool(
        _is_strict_task(one) or "whether" in mine | theirs
    )


def ask_opposites(one: ParsedText, other: ParsedText) -> bool:
    """Whether one text asks for one particular thing and the other for another: when, and where."""
    mine, theirs = question_kinds(one), question_kinds(other)
    if not (mine <= NARROW and theirs <= NARROW) or mine & theirs:
        return False
    return not any(frozenset((a, b)) in _COMPATIBLE for a in mine for b in theirs)


def question_kinds(text: ParsedText) -> frozenset[str]:
    """What is asked for, by the words that ask; several where it could be either."""
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


def _is_strict_task(text: ParsedText) -> bool:
    return "task" in question_kinds(text)


def _asks_for_advice(text: ParsedText) -> bool:
    return _OUGHT.search(" ".join(text.words)) is not None
