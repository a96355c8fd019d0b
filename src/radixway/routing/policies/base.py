"""What a policy is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from radixway.pipeline import Request
from radixway.routing.worker import Worker


class Policy(Protocol):
    """Orders workers for one request: a cost for each candidate, the lowest wins.

    Equal costs are settled by the selector, which takes the worker it chose least recently. A policy is pure:
    it reads the request and the candidates and does no I/O.
    """

    name: str

    def costs(self, request: Request, candidates: Sequence[Worker]) -> list[float]:
        """One cost per candidate, in their order. `candidates` has at least two members."""
        ...
