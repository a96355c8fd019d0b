"""Session: all requests of a conversation go to one worker.

The worker of a new session is found by rendezvous hashing (D. Thaler, C. Ravishankar, "A Name-Based Mapping
Scheme for Rendezvous", 1996), so gateways that share nothing agree, and a worker that comes or goes moves
only the sessions that are its own. A session that is under way stays where it is as long as that worker
answers, even if the hash would now say another.
"""

from __future__ import annotations

from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from radixway.core.config import SessionPolicyConfig
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.policies.least_loaded import LeastLoaded
from radixway.routing.policies.session_bindings import SessionBindings, session_key
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker

_MAX_SESSIONS = 1_000_000


class SessionAffinity(Policy):
    """Requests without a session go to the least loaded worker."""

    name = "session"
    reads_session = True

    def __init__(self, config: SessionPolicyConfig) -> None:
        self._without = LeastLoaded()
        self._bonds = SessionBindings(config.ttl_s, _MAX_SESSIONS)

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        session = request.session
        if session is None:
            scores = self._without.score(request, candidates, view)
            scores.reason = "no session"
            return scores
        bound = self._bonds.find_worker(session, view.now)
        if bound is not None and bound in candidates:
            return Scores([float(worker is not bound) for worker in candidates], reason="bound")
        key = session_key(session)
        weights = [xxh3_64_intdigest(key + b"\0" + worker.name.encode()) for worker in candidates]
        return Scores([1 - weight / 2**64 for weight in weights], reason="hashed")

    def routed(self, request: RoutingRequest, worker: Worker, now: float) -> None:
        if request.session is not None:
            self._bonds.bind_session(request.session, worker, now)

    def finish(self, session: str) -> bool:
        return self._bonds.release_session(session)

    def forget(self, worker: Worker) -> None:
        self._bonds.release_worker(worker)
