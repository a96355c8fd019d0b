"""What a peer may send that costs it little and the server much: limits, and the counting of them.

A frame that brings a request or a part of one is bounded by windows, by the streams of a connection and by
the size of messages. The others are counted here: a peer beyond a limit gets GOAWAY, ENHANCE_YOUR_CALM.
"""

from collections.abc import Callable

from radixway.core.http2.frames import ErrorCode, Http2Error

MAX_BLOCK_BYTES = 65_536
"""Of the headers of a request, before and after they are decoded."""
MAX_CONTINUATIONS = 32
"""Frames that go on with one header block. Four frames of the least size hold the largest block."""
MAX_IDLE_FRAMES = 1_000
"""Frames that bring nothing: PING, SETTINGS, PRIORITY, empty DATA, what comes for a stream that is over.

An idle connection is pinged some times a minute, a busy one as often as there are data. WINDOW_UPDATE is not
counted: a peer may send two for each frame that it gets, and none has an answer.
"""
MAX_RAPID_RESETS = 1_000
"""Streams refused, or reset by the peer within `RAPID_RESET_S`, before an answer (CVE-2023-44487).

Such streams escape the limit of those open at a time. Each that ends after its answer earns one back, also by
a reset, as Envoy ends its calls. So most clients of Envoy would have to leave within a second, unanswered.
"""
RAPID_RESET_S = 1.0
REFILL_S = 10.0
"""After this time a budget is whole again."""
MAX_UNREAD_BYTES = 4 * 2**20
"""Sent, beside data, while the peer reads nothing: heads and trailers of some ten thousand replies."""
MAX_WAITING_MESSAGES = 1_000
"""Messages of a reply that wait for a window. Envoy waits for most replies before it sends on."""


class FrameBudget:
    """Counts frames of one kind; useful ones earn some back, and time makes the budget whole."""

    __slots__ = ("_left", "_limit", "_now", "_refilled_at_s", "_what")

    def __init__(self, limit: int, what: str, now: Callable[[], float]) -> None:
        """`limit`: frames within `REFILL_S`; `what`: they are, in words; `now`: a clock in seconds."""
        self._limit = self._left = limit
        self._what = what
        self._now = now
        self._refilled_at_s = now()

    def spend(self) -> None:
        """Count one frame. Raises Http2Error: it is beyond the budget."""
        self._left -= 1
        if self._left < 0:
            now = self._now()
            if now - self._refilled_at_s < REFILL_S:
                raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, f"more than {self._limit} {self._what}")
            self._refilled_at_s = now
            self._left = self._limit - 1

    def earn(self, count: int) -> None:
        """Allow `count` more frames, within the limit."""
        if self._left < self._limit:
            self._left = min(self._limit, self._left + count)
