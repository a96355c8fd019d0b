"""What happened within the last minute."""

from __future__ import annotations


class SlidingWindow:
    """A sum over the last `seconds`, in slots of a second: bounded memory whatever is counted.

    What is counted leaves the sum after `seconds` to `seconds` + 1. Times are seconds of any clock; one that
    goes back counts into the latest slot.
    """

    def __init__(self, seconds: int = 60) -> None:
        self._slots = [0] * (seconds + 1)
        self._at = 0
        self._total = 0

    def add_amount(self, now: float, amount: int) -> None:
        """Count `amount` now."""
        self._advance(now)
        self._slots[self._at % len(self._slots)] += amount
        self._total += amount

    def current_total(self, now: float) -> int:
        """What the window holds."""
        self._advance(now)
        return self._total

    def frees_in_s(self, now: float, amount: int) -> int:
        """Whole seconds until `amount` of what it holds has left, if nothing is added; all of it at most."""
        self._advance(now)
        size, left = len(self._slots), min(amount, self._total)
        for age in range(size - 1, -1, -1):
            left -= self._slots[(self._at - age) % size]
            if left <= 0:
                return max(size - age, 1)
        return size

    def check(self) -> None:
        """Raises AssertionError where the sum is not that of the slots."""
        assert self._total == sum(self._slots), (self._total, self._slots)

    def _advance(self, now: float) -> None:
        at = int(now)
        if at <= self._at:
            return
        for second in range(self._at + 1, min(at, self._at + len(self._slots)) + 1):
            slot = second % len(self._slots)
            self._total -= self._slots[slot]
            self._slots[slot] = 0
        self._at = at
