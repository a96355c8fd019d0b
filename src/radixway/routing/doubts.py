"""Workers that pass their health checks and yet break the requests they are given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from radixway.routing.worker import Worker

_FIRST_S = 0.5
_LONGEST_S = 60.0


@dataclass(slots=True)
class _Doubt:
    broken: int = 0
    """Requests broken in a row."""
    until: float = 0.0
    """Monotonic seconds."""


class Doubts:
    """After the second request in a row that a worker breaks, others go first: for half a second, then twice
    as long each time it breaks another. The next answer clears it.
    """

    def __init__(self) -> None:
        self._doubts: dict[Worker, _Doubt] = {}

    def raise_about(self, worker: Worker) -> None:
        """It broke a request."""
        doubt = self._doubts.setdefault(worker, _Doubt())
        doubt.broken += 1
        if doubt.broken >= 2:
            doubt.until = time.monotonic() + min(_LONGEST_S, _FIRST_S * 2 ** (doubt.broken - 2))

    def clear(self, worker: Worker) -> None:
        """It answered, or is gone."""
        if self._doubts:
            self._doubts.pop(worker, None)

    def trusted(self, candidates: Sequence[Worker]) -> Sequence[Worker]:
        """Those in no doubt now; all of them if that leaves none."""
        if not self._doubts:
            return candidates
        now = time.monotonic()
        trusted = [worker for worker in candidates if not self._in_doubt(worker, now)]
        return trusted or candidates

    def _in_doubt(self, worker: Worker, now: float) -> bool:
        doubt = self._doubts.get(worker)
        return doubt is not None and now < doubt.until
