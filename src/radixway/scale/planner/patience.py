"""Up at once, down slowly: keeps a proposal from following every lull. Pure; time is passed in."""

from __future__ import annotations

from collections import deque


class ScaleDownStabilizer:
    """Up at once, down once nothing has asked for more for long enough (Kubernetes' stabilization window)."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._asked: deque[tuple[float, int]] = deque()
        """Falling counts, each until when it is to be kept."""

    def stabilize(self, now: float, replicas: int) -> int:
        """The most that was asked for within the patience."""
        asked = self._asked
        while asked and asked[-1][1] <= replicas:
            asked.pop()
        asked.append((now + self._patience_s, replicas))
        while len(asked) > 1 and asked[0][0] <= now:
            asked.popleft()
        return asked[0][1]
