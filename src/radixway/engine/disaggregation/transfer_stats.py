"""Counts of KV transfers, sent or received."""

import threading
from collections import Counter
from dataclasses import dataclass, field

_MAX_REASONS = 64
"""Distinct reasons; the other engine words some of them."""


@dataclass(slots=True, frozen=True)
class TransferStats:
    """Counts since the start."""

    under_way: int = 0
    complete: int = 0
    failed: int = 0
    """Transfers that did not; the decode engine computed the rest."""
    tokens: int = 0
    size_bytes: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


class TransferCounter:
    """Counts transfers; several threads may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._complete = self._tokens = self._bytes = 0
        self._reasons: Counter[str] = Counter()

    def count_ended(self, reason: str, *, tokens: int = 0) -> None:
        """Count a transfer that has ended, with so many `tokens`: whole if there is no `reason`."""
        with self._lock:
            self._tokens += tokens
            if reason:
                known = reason in self._reasons or len(self._reasons) < _MAX_REASONS
                self._reasons[reason if known else "another reason"] += 1
            else:
                self._complete += 1

    def count_bytes(self, size_bytes: int) -> None:
        """Add `size_bytes` that have been copied."""
        with self._lock:
            self._bytes += size_bytes

    def to_stats(self, under_way: int) -> TransferStats:
        """The counts now, with `under_way` transfers that have not ended."""
        with self._lock:
            return TransferStats(
                under_way=under_way,
                complete=self._complete,
                failed=self._reasons.total(),
                tokens=self._tokens,
                size_bytes=self._bytes,
                reasons=dict(self._reasons),
            )
