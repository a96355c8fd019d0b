"""How hard a question is: by examples, by who answered which like it, and by its words alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from radixway.core.config.semantic import ComplexitySignalConfig
from radixway.semantics.signals.base import SignalValue

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.encoders.base import Floats
    from radixway.semantics.encoders.heads.quality_head import QualityHead
    from radixway.semantics.signals.embedding import Vectors
    from radixway.semantics.signals.question import RequestQuestion

    Leaning = Callable[[Floats], float]

_HARD_TASK = re.compile(
    r"\b(prove|proof|show that|derive|optimi[sz]e|design|architect|debug|refactor|implement|trade-?offs?"
    r"|step[ -]by[ -]step|rigorous(?:ly)?)\b"
    r"|证明|推导|优化|设计|调试|重构|实现|权衡|逐步|论证",
    re.IGNORECASE,
)
_JUDGEMENT = re.compile(
    r"\b(compare|analy[sz]e|evaluate|assess|justify|argue|critique|recommend|propose)\b"
    r"|比较|分析|评估|论述",
    re.IGNORECASE,
)
_TASK = re.compile(
    r"\b(discuss|theorem|complexity|algorithm|why|explain|describe|difference|pros and cons|versus"
    r"|summari[sz]e|write|rewrite|draft|plan|solve|calculate|derivative|integral|integrate|differentiate|recipe"
    r"|how (?:do|can|to|would))\b"
    r"|讨论|定理|算法|复杂度|为什么|解释|说明|描述|区别|利弊|总结|概括|写|起草|计划|方案|怎么做|如何|求解|求导|积分",
    re.IGNORECASE,
)
_FORMAL = re.compile(r"[=<>≤≥∑∫√∀∃^{}\[\]\\]|```")
_PARTS = re.compile(r"[?？;；\n]|\b(?:and then|then|also|finally)\b|然后|并且|最后", re.IGNORECASE)


def lexical_complexity(text: str) -> float:
    """Return a complexity in [0, 1): from length, the tasks that its words ask for, formal notation, and
    the number of parts.

    A heuristic that costs microseconds: it tells a greeting or a sum from a task, and a task from a proof
    or a design."""
    longish = min(len(text.encode("utf-8", "surrogatepass")) / 2000, 1.0)
    hard = min(len(_HARD_TASK.findall(text)), 3)
    judgements = min(len(_JUDGEMENT.findall(text)), 3)
    tasks = min(len(_TASK.findall(text)), 3)
    formal = min(len(_FORMAL.findall(text)), 8) / 8
    parts = min(len(_PARTS.findall(text)), 6) / 6
    effort = 0.65 * hard + 0.3 * judgements + 0.25 * tasks + 0.8 * formal + 0.8 * longish + 0.5 * parts
    return effort / (effort + 0.6)


class ComplexityDetector:
    """`complexity.score` from the words; `NAME:hard`, `:medium` or `:easy` for configured rules."""

    kind = "complexity"

    def __init__(
        self, rules: Sequence[ComplexitySignalConfig] = (), leanings: Sequence[Leaning] = ()
    ) -> None:
        """`leanings`: per rule, how much a vector leans to its hard side."""
        self._rules = list(zip(rules, leanings, strict=True))
        self.needs_encoding = bool(self._rules)

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None
    ) -> Iterator[SignalValue]:
        """Yield the words' score under the empty name, then one level per rule."""
        yield SignalValue("complexity", "", lexical_complexity(question.text[:20_000]))
        if encoding is None:
            return
        for rule, leaning in self._rules:
            by = leaning(encoding.vector)
            level = "hard" if by > rule.threshold else "easy" if by < -rule.threshold else "medium"
            yield SignalValue("complexity", f"{rule.name}:{level}", by, True, min(1.0, abs(by) + 0.5))


def leaning_by_examples(hard: Vectors, easy: Vectors) -> Leaning:
    """Return the likeness to the nearest of the hard examples, less that to the nearest of the easy ones."""
    return lambda vector: float((hard @ vector).max() - (easy @ vector).max())


def leaning_by_head(head: QualityHead) -> Leaning:
    """Return how much likelier the last of the head's models is to answer well than the first."""

    def leaning(vector: Floats) -> float:
        quality = head.predict_quality(vector)
        return float(quality[-1] - quality[0])

    return leaning
