"""What is on the screen: the latest look at a gateway, its rates, and where they come from."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import monotonic

from radixway.telemetry import Figures, Scrapes, WorkerFigures, read_figures, read_worker_figures
from radixway.top.gateway import Look, Refusal, SeenRequest, SeenWorker

WINDOW_S = 10.0
"""Rates are over so much time, so that they stand still long enough to be read."""

_PAST = 200
"""Points that a line may have."""


class View:
    """Told of each look; synchronous, and the clock is the looks' own."""

    def __init__(self, url: str, window_s: float = WINDOW_S) -> None:
        self.url = url
        self.past: deque[Figures | None] = deque(maxlen=_PAST)
        """One for each look, None for those that failed; the newest is last."""
        self.figures: Figures | None = None
        """None until there are two looks at one gateway."""
        self.worker_figures: Mapping[str, WorkerFigures] = {}
        self.workers: list[SeenWorker] | Refusal = []
        self.requests: list[SeenRequest] | Refusal = []
        self.away: str | None = None
        """Why there is nothing to see, while nothing is."""
        self.away_since = 0.0
        self._scrapes = Scrapes(window_s)

    def saw(self, look: Look) -> None:
        """The gateway was there."""
        self.away = None
        self.workers, self.requests = look.workers, look.requests
        self._scrapes.add(look.scrape)
        change = self._scrapes.change()
        if change is not None:
            self.figures = read_figures(change)
            self.worker_figures = read_worker_figures(change)
            self.past.append(self.figures)

    def lost(self, why: str) -> None:
        """It was not. What was seen last stays, but no rate reaches over the gap."""
        if self.away is None:
            self.away_since = monotonic()
        self.away = why
        self._scrapes.clear()
        self.past.append(None)

    def workers_like(self, words: str) -> list[SeenWorker]:
        """Workers whose name, state or models have all these words; busiest first, then by name."""
        if isinstance(self.workers, Refusal):
            return []
        found = [worker for worker in self.workers if _has(words, worker.name, worker.state, *worker.models)]
        return sorted(found, key=lambda worker: (-worker.in_flight, worker.name))

    def requests_like(self, words: str) -> list[SeenRequest]:
        """Requests that have all these words in what is shown of them; newest first."""
        if isinstance(self.requests, Refusal):
            return []
        return [request for request in self.requests if _has(words, *request.words())]


def _has(words: str, *texts: str) -> bool:
    whole = " ".join(texts).lower()
    return all(word in whole for word in words.lower().split())
