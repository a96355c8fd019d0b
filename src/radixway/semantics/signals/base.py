"""What every signal is, and what is known of one request's signals so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.signals.question import RequestQuestion

Value = bool | float | str


@dataclass(frozen=True, slots=True)
class DomainValue:
    """The domain head's result, in this configuration's categories."""

    label: str
    confidence: float
    distribution: Mapping[str, float]
    """By category; sums to 1."""
    entropy: float
    """Entropy of the distribution, in [0, 1]: 1 is knowing nothing."""


@dataclass(frozen=True, slots=True)
class SignalValue:
    """A signal's value for one request."""

    kind: str
    name: str
    """Name in rules; empty for a kind's overall value (the language, the domain, the length)."""
    value: Value
    matched: bool = True
    confidence: float = 1.0
    """Confidence in [0, 1]."""
    category: str | None = None
    """The category of questions that it speaks for, if any."""
    domain: DomainValue | None = None
    """The whole distribution, where the domain head made one."""


class SignalDetector(Protocol):
    """Reads one kind of signals. Synchronous, pure and safe to share: it keeps nothing of a request."""

    kind: str
    needs_encoding: bool

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None
    ) -> Iterable[SignalValue]:
        """Return every signal of the kind that says something; those left out did not match."""
        ...


@dataclass(slots=True)
class SignalSet:
    """The signals of one request, as far as they were read: by kind, all of a kind at once."""

    latencies_s: dict[str, float] = field(default_factory=dict)
    """By kind, seconds that reading it took."""
    began_at: dict[str, float] = field(default_factory=dict)
    """By kind, when that began, by its reader's clock."""
    _by_kind: dict[str, dict[str, SignalValue]] = field(default_factory=dict)

    def add_signals(self, kind: str, found: Iterable[SignalValue], latency_s: float = 0.0) -> None:
        """Add all signals of a kind."""
        self._by_kind[kind] = {signal.name: signal for signal in found}
        self.latencies_s[kind] = latency_s

    def has_kind(self, kind: str) -> bool:
        """Return whether `kind` was read."""
        return kind in self._by_kind

    def find_signal(self, kind: str, name: str = "") -> SignalValue | None:
        """Return the signal, if it was read and said something."""
        return self._by_kind.get(kind, {}).get(name)

    @property
    def domain(self) -> DomainValue | None:
        """Return the domain head's result, once it was asked."""
        signal = self.find_signal("domain")
        return None if signal is None else signal.domain

    def signals_of(self, kind: str) -> Iterator[SignalValue]:
        """Return what was read of that kind, in the order of the configuration."""
        return iter(self._by_kind.get(kind, {}).values())

    def explain(self) -> list[dict[str, Any]]:
        """Return every signal for the journal: names, figures and categories, no text of the request."""
        return [
            {
                "kind": kind,
                "name": signal.name,
                "value": signal.value if not isinstance(signal.value, float) else round(signal.value, 4),
                "matched": signal.matched,
                "confidence": round(signal.confidence, 4),
                "latency_ms": round(self.latencies_s[kind] * 1e3, 4),
            }
            for kind, found in self._by_kind.items()
            for signal in found.values()
        ]
