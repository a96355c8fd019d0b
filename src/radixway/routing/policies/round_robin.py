"""Round robin: everybody costs the same, so the least recently chosen wins."""

from __future__ import annotations

from collections.abc import Sequence

from radixway.pipeline import Request
from radixway.routing.worker import Worker


class RoundRobin:
    """Turns, whatever the load."""

    name = "round_robin"

    def costs(self, request: Request, candidates: Sequence[Worker]) -> list[float]:
        return [0.0] * len(candidates)
