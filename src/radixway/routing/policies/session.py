"""Session: all requests of a conversation go to one worker.

The worker of a new session is found by rendezvous hashing (D. Thaler, C. Ravishankar, "A Name-Based Mapping
Scheme for Rendezvous", 1996), so gateways that share nothing agree, and a worker that comes or goes moves
only the sessions that are its own. A session that is under way stays where it is as long as that worker
answers, even if the hash would now say another.
"""

from __future__ import annotations

from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from radixway.config import SessionPolicy
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.policies.bonds import Bonds, key_of
from radixway.routing.policies.least_loaded import LeastLoaded
from radixway.routing.request import RoutingRequest
from radixway.routing.worker import Worker

_MOST_SESSIONS = 1_000_000


class Session(Policy):
    """Requests without a session go to the least loaded worker."""

    name = "session"
    reads_session = True

    def __init__(self, config: SessionPolicy) -> None:
        self._without = LeastLoaded()
        self._bonds = Bonds(config.ttl_s, _MOST_SESSIONS)

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        session = request.session
        if session is None:
            scores = self._without.score(request, candidates, view)
            scores.reason = "no session"
            return scores
        bound = self._bonds.find(session, view.now)
        if bound is not None and bound in candidates:
            return Scores([float(worker is not bound) for worker in candidates], reason="bound")
        key = key_of(session)
        weights = [xxh3_64_intdigest(key + b"\0" + worker.name.encode()) for worker in candidates]
        return Scores([1 - weight / 2**64 for weight in weights], reason="hashed")

    def routed(self, request: RoutingRequest, worker: Worker, now: float) -> None:
        if request.session is not None:
            self._bonds.bind(request.session, worker, now)

    def finish(self, session: str) -> bool:
        return self._bonds.finish(session)

    def forget(self, worker: Worker) -> None:
        self._bonds.forget(worker)
