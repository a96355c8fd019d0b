"""Session: all requests of a conversation go to one worker.

The worker of a new session is found by rendezvous hashing (D. Thaler, C. Ravishankar, "A Name-Based Mapping
Scheme for Rendezvous", 1996), so gateways that share nothing agree, and a worker that comes or goes moves
only the sessions that are its own. A session that is under way stays where it is as long as that worker
answers, even if the hash would now say another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from radixway.config import SessionPolicy
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.policies.least_loaded import LeastLoaded
from radixway.routing.request import RoutingRequest
from radixway.routing.worker import Worker

_MOST_SESSIONS = 1_000_000


class Session(Policy):
    """Requests without a session go to the least loaded worker."""

    name = "session"
    reads_session = True

    def __init__(self, config: SessionPolicy) -> None:
        self._ttl_s = config.ttl_s
        self._without = LeastLoaded()
        self._bound: OrderedDict[bytes, tuple[Worker, float]] = OrderedDict()
        """Where a session is and until when, the one that ends first at the front. By a digest: what clients
        name their sessions may be as long as a body.
        """

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        session = request.session
        if session is None:
            scores = self._without.score(request, candidates, view)
            scores.reason = "no session"
            return scores
        key = xxh3_128_digest(session.encode())
        bound, until = self._bound.get(key, (None, 0.0))
        if bound is not None and view.now < until and bound in candidates:
            return Scores([float(worker is not bound) for worker in candidates], reason="bound")
        weights = [xxh3_64_intdigest(key + b"\0" + worker.name.encode()) for worker in candidates]
        return Scores([1 - weight / 2**64 for weight in weights], reason="hashed")

    def routed(self, request: RoutingRequest, worker: Worker, now: float) -> None:
        if request.session is None:
            return
        bound, key = self._bound, xxh3_128_digest(request.session.encode())
        bound[key] = (worker, now + self._ttl_s)
        bound.move_to_end(key)
        while bound and (len(bound) > _MOST_SESSIONS or next(iter(bound.values()))[1] <= now):
            bound.popitem(last=False)

    def forget(self, worker: Worker) -> None:
        for session in [session for session, (bound, _) in self._bound.items() if bound is worker]:
            del self._bound[session]
