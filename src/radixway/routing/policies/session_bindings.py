"""Which worker each session is bound to, and until when."""

from __future__ import annotations

from collections import Counter, OrderedDict

from xxhash import xxh3_128_digest

from radixway.routing.worker import Worker


class SessionBindings:
    """Bounded in number and in time. By a digest: what clients name their sessions may be long as a body."""

    def __init__(self, ttl_s: float, most: int) -> None:
        self._ttl_s = ttl_s
        self._most = most
        self._bound: OrderedDict[bytes, tuple[Worker, float]] = OrderedDict()
        """The one that ends first at the front."""
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
        """The session is at `worker` from now on. Whatever has had its time, or is too much, goes."""
        key = session_key(session)
        self._release(key)
        self._bound[key] = (worker, now + self._ttl_s)
        self._sessions[worker] += 1
        while len(self._bound) > self._most or next(iter(self._bound.values()))[1] <= now:
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
        assert len(ends) <= self._most

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
