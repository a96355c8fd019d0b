"""The state of the screen: the latest reading of a gateway, and rates between readings."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import monotonic

from radixway.cli.top.gateway_reader import GatewaySample, PartUnavailable, SeenRequest, SeenWorker
from radixway.core.telemetry import (
    GatewayStats,
    ScrapeHistory,
    WorkerStats,
    read_gateway_stats,
    read_worker_stats,
)

WINDOW_S = 10.0
"""Rates are over so much time, so that they stand still long enough to be read."""

_PAST = 200
"""Points that a line may have."""


class TopView:
    """Gets each reading; synchronous, the clock is that of the readings."""

    def __init__(self, url: str, window_s: float = WINDOW_S) -> None:
        self.url = url
        self.past: deque[GatewayStats | None] = deque(maxlen=_PAST)
        """One for each look, None for those that failed; the newest is last."""
        self.figures: GatewayStats | None = None
        """None until there are two looks at one gateway."""
        self.worker_figures: Mapping[str, WorkerStats] = {}
        self.workers: list[SeenWorker] | PartUnavailable = []
        self.requests: list[SeenRequest] | PartUnavailable = []
        self.away: str | None = None
        """The reason why there is nothing to see; None while there is."""
        self.away_since = 0.0
        self._scrapes = ScrapeHistory(window_s)

    def add_sample(self, look: GatewaySample) -> None:
        """Add the reading `look`."""
        self.away = None
        self.workers, self.requests = look.workers, look.requests
        self._scrapes.add_scrape(look.scrape)
        change = self._scrapes.delta_over_window()
        if change is not None:
            self.figures = read_gateway_stats(change)
            self.worker_figures = read_worker_stats(change)
            self.past.append(self.figures)

    def mark_lost(self, why: str) -> None:
        """Note that a reading failed, with `why`. The last one stays shown; rates do not span the gap."""
        if self.away is None:
            self.away_since = monotonic()
        self.away = why
        self._scrapes.forget_scrapes()
        self.past.append(None)

    def filter_workers(self, words: str) -> list[SeenWorker]:
        """Workers whose name, state or models have all these words; busiest first, then by name."""
        if isinstance(self.workers, PartUnavailable):
            return []
        found = [
            worker
            for worker in self.workers
            if _word_filter(words, worker.name, worker.state, *worker.models)
        ]
        return sorted(found, key=lambda worker: (-worker.in_flight, worker.name))

    def filter_requests(self, words: str) -> list[SeenRequest]:
        """Requests that have all these words in what is shown of them; newest first."""
        if isinstance(self.requests, PartUnavailable):
            return []
        return [request for request in self.requests if _word_filter(words, *request.search_words())]


def _word_filter(words: str, *texts: str) -> bool:
    whole = " ".join(texts).lower()
    return all(word in whole for word in words.lower().split())
