"""The domain: which category of questions a prompt belongs to, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING, Protocol

from radixway.core.config.semantic import CategoryConfig, DomainSignalConfig
from radixway.semantics.signals.base import DomainValue, SignalValue

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.encoders.heads.domain_head import DomainReading
    from radixway.semantics.signals.question import RequestQuestion


class DomainClassifier(Protocol):
    """Reads a text with the vector an encoder made of it."""

    def classify_domain(self, text: str, encoding: TextEncoding) -> DomainReading: ...


class DomainDetector:
    """The head's labels in the names of this configuration."""

    kind = "domain"
    needs_encoding = True

    def __init__(
        self,
        head: DomainClassifier,
        categories: Sequence[CategoryConfig],
        names: Sequence[DomainSignalConfig] = (),
        threshold: float = 0.6,
    ) -> None:
        """`categories`: labels are translated to these. `names`: other names for labels, used in rules."""
        self._head = head
        self._category_of = {label: category.name for category in categories for label in category.labels()}
        named: list[DomainSignalConfig | CategoryConfig] = [*names, *categories]
        self._names = [(category.name, frozenset(category.labels())) for category in named]
        self._threshold = threshold

    def map_domain(self, text: str, encoding: TextEncoding) -> tuple[DomainValue, str]:
        """Return the domain in this configuration's categories, and the head's own label."""
        reading = self._head.classify_domain(text, encoding)
        distribution: dict[str, float] = {}
        for label, probability in reading.distribution.items():
            name = self._category_of.get(label, label)
            distribution[name] = distribution.get(name, 0.0) + probability
        best = max(distribution, key=distribution.__getitem__)
        found = DomainValue(best, distribution[best], distribution, normalized_entropy(distribution))
        return found, reading.label

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None
    ) -> Iterator[SignalValue]:
        """Yield the category under the empty name, then every name that its label goes by."""
        if encoding is None or not question.text.strip():
            return
        domain, label = self.map_domain(question.text, encoding)
        sure = domain.confidence >= self._threshold
        yield SignalValue("domain", "", domain.label, sure, domain.confidence, domain.label, domain)
        for name, labels in self._names:
            if label in labels:
                yield SignalValue("domain", name, label, sure, domain.confidence)


def normalized_entropy(distribution: Mapping[str, float]) -> float:
    """Shannon entropy over log n, in [0, 1]."""
    if len(distribution) < 2:
        return 0.0
    total = sum(distribution.values()) or 1.0
    shares = (value / total for value in distribution.values() if value > 0)
    return -sum(share * log(share) for share in shares) / log(len(distribution))
