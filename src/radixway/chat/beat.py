"""One timer for all that is to be done some milliseconds from now: waking up is what small steps cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class FlushTimer:
    """Makes the calls that were asked for, all at one time. Belongs to one event loop."""

    def __init__(self, every_s: float) -> None:
        """`every_s`: the longest that a call waits."""
        self._every_s = every_s
        self._calls: dict[Callable[[], None], None] = {}

    def call_at_next(self, call: Callable[[], None]) -> None:
        """Once, however often it is asked for until then."""
        if not self._calls:
            asyncio.get_running_loop().call_later(self._every_s, self._make_calls)
        self._calls[call] = None

    def _make_calls(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls:
            call()
