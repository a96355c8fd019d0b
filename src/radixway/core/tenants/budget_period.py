"""Durations as `30d`, and the ends of the periods of a budget."""

import re
from calendar import monthrange
from datetime import UTC, datetime
from math import floor

_DURATION = re.compile(r"([1-9][0-9]{0,8})\s*(s|m|h|d|w|mo)")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MAX_DURATION_S = 100 * 366 * 86_400
_MAX_MONTHS = 1200


class BudgetPeriod:
    """A span like `30d`, `12h` or `1mo`: a fixed number of seconds, or of calendar months."""

    def __init__(self, text: str) -> None:
        """Parse `text`. Raises ValueError."""
        match = _DURATION.fullmatch(text.strip().lower())
        if match is None:
            raise ValueError(f"a duration like 30s, 15m, 12h, 30d, 2w or 1mo, not {text[:40]!r}")
        count, unit = int(match[1]), match[2]
        self._months = count if unit == "mo" else 0
        self._seconds = 0 if unit == "mo" else count * _UNITS_S[unit]
        if self._months > _MAX_MONTHS or self._seconds > _MAX_DURATION_S:
            raise ValueError(f"a duration of at most a hundred years, not {text[:40]!r}")

    def after(self, start: float) -> float:
        """Return the end of a period that begins at `start`, both in seconds since the epoch."""
        return self._add_months(start, self._months) if self._months else start + self._seconds

    def next_end(self, end: float, now: float) -> float:
        """Return the first end after `now` in the row of periods of which one ends at `end`."""
        if end > now:
            return end
        if not self._months:
            return end + (floor((now - end) / self._seconds) + 1) * self._seconds
        periods = 1
        while (ends := self._add_months(end, periods * self._months)) <= now:
            periods += 1
        return ends

    @staticmethod
    def _add_months(start: float, months: int) -> float:
        """Return `start` some months later, on the month's last day where it has no such day."""
        day = datetime.fromtimestamp(start, UTC)
        year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
        last = monthrange(year, month + 1)[1]
        return day.replace(year=year, month=month + 1, day=min(day.day, last)).timestamp()
