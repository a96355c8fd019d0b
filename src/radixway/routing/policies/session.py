"""Policies that keep all requests of a conversation at one worker: `session` and `sticky_least_loaded`."""

from collections import Counter, OrderedDict
from collections.abc import Sequence

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from radixway.core.config import SessionPolicyConfig, StickyLeastLoadedPolicyConfig
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.policies.least_loaded import LeastLoaded
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker

_MAX_SESSIONS = 1_000_000


class SessionBindings:
    """Bounded in number and in time. By a digest: what clients name their sessions may be long as a body."""

    def __init__(self, ttl_s: float, max_sessions: int) -> None:
        self._ttl_s = ttl_s
        self._max_sessions = max_sessions
        self._bound: OrderedDict[bytes, tuple[Worker, float]] = OrderedDict()
        """By expiry, the first to expire in front."""
        self._sessions: Counter[Worker] = Counter()

    def __len__(self) -> int:
        return len(self._bound)

    def find_worker(self, session: str, now: float) -> Worker | None:
        """The worker of a session whose time is not over."""
        worker, until = self._bound.get(session_key(session), (None, 0.0))
        return worker if now < until else None

    def count_sessions(self, worker: Worker) -> int:
        """Bound to `worker`, as of the last `bind`."""
        return self._sessions[worker]

    def bind_session(self, session: str, worker: Worker, now: float) -> None:
        """Bind `session` to `worker` from `now` on. Drops expired sessions, and the oldest over the limit."""
        key = session_key(session)
        self._release(key)
        self._bound[key] = (worker, now + self._ttl_s)
        self._sessions[worker] += 1
        while len(self._bound) > self._max_sessions or next(iter(self._bound.values()))[1] <= now:
            self._release(next(iter(self._bound)))

    def release_session(self, session: str) -> bool:
        """Let go of a session. Whether it was bound."""
        return self._release(session_key(session))

    def release_worker(self, worker: Worker) -> None:
        """Let go of every session of `worker`."""
        for key in [key for key, (bound, _) in self._bound.items() if bound is worker]:
            self._release(key)

    def check(self) -> None:
        """Recount. Raises AssertionError."""
        assert Counter(worker for worker, _ in self._bound.values()) == self._sessions
        ends = [until for _, until in self._bound.values()]
        assert ends == sorted(ends)
        assert len(ends) <= self._max_sessions

    def _release(self, key: bytes) -> bool:
        bound = self._bound.pop(key, None)
        if bound is None:
            return False
        worker = bound[0]
        self._sessions[worker] -= 1
        if not self._sessions[worker]:
            del self._sessions[worker]
        return True


def session_key(session: str) -> bytes:
    """A session's name, at a fixed length."""
    return xxh3_128_digest(session.encode())


class _SessionPolicy(Policy):
    reads_session = True
    _bindings: SessionBindings

    def routed(self, request: RoutingRequest, worker: Worker, now: float) -> None:
        if request.session is not None:
            self._bindings.bind_session(request.session, worker, now)

    def finish(self, session: str) -> bool:
        return self._bindings.release_session(session)

    def forget(self, worker: Worker) -> None:
        self._bindings.release_worker(worker)


class SessionAffinity(_SessionPolicy):
    """A session stays at its worker as long as that one answers; without a session, the least loaded.

    The worker of a new session is found by rendezvous hashing (D. Thaler, C. Ravishankar, "A Name-Based
    Mapping Scheme for Rendezvous", 1996), so gateways that share nothing agree, and a worker that comes or
    goes moves only the sessions that are its own.
    """

    name = "session"

    def __init__(self, config: SessionPolicyConfig) -> None:
        self._without = LeastLoaded()
        self._bindings = SessionBindings(config.ttl_s, _MAX_SESSIONS)

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        session = request.session
        if session is None:
            scores = self._without.score(request, candidates, view)
            scores.reason = "no session"
            return scores
        bound = self._bindings.find_worker(session, view.now)
        if bound is not None and bound in candidates:
            return Scores([float(worker is not bound) for worker in candidates], reason="bound")
        key = session_key(session)
        weights = [xxh3_64_intdigest(key + b"\0" + worker.name.encode()) for worker in candidates]
        return Scores([1 - weight / 2**64 for weight in weights], reason="hashed")


class StickyLeastLoaded(_SessionPolicy):
    """A session stays where its prefix is, until another worker has much less to do.

    A new session goes where the fewest requests are in flight, of equals where the fewest sessions are:
    agents think between their turns, so an idle moment says little about a worker with many of them.
    Requests without a session go to the least loaded worker, and bind nothing.

    Source: `sticky_least_loaded` and `/finish_session` of vllm-router (vllm-project/router #235, prime-rl
    #3563), which never breaks a bond; the margin per session is verl's `affinity_break_margin` (verl #7435),
    the ratio beside it SGLang's second threshold for imbalance.
    """

    name = "sticky_least_loaded"

    def __init__(self, config: StickyLeastLoadedPolicyConfig) -> None:
        self._config = config
        self._bindings = SessionBindings(config.ttl_s, config.most_sessions)

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        requests = [worker.load.all_requests for worker in candidates]
        sessions = [self._bindings.count_sessions(worker) for worker in candidates]
        divisor = max(sessions) + 1
        scores = Scores(
            [count + others / divisor for count, others in zip(requests, sessions, strict=True)],
            ("requests", "sessions"),
            list(zip(requests, sessions, strict=True)),
        )
        if request.session is None:
            scores.reason = "no session"
            return scores
        bound = self._bindings.find_worker(request.session, view.now)
        if bound is None:
            scores.reason = "new session"
        elif bound not in candidates:
            scores.reason = "its worker cannot answer"
        elif self._is_too_busy(bound.load.all_requests, min(requests)):
            scores.reason = "its worker is too busy"
        else:
            scores.reason = "bound"
            scores.costs = [float(worker is not bound) for worker in candidates]
        return scores

    def _is_too_busy(self, requests: int, fewest: int) -> bool:
        margin = self._config.break_margin
        return (
            margin is not None and requests - fewest > margin and requests > self._config.break_ratio * fewest
        )
