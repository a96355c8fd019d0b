"""The sessions there are: made, found, finished when idle, and bounded in number."""

import uuid
from collections.abc import Iterator
from typing import Any

from radixway.trajectories.sessions.session import AgentSession
from radixway.trajectories.store import TrajectoryStore


class SessionExistsError(Exception):
    """There is a session of that id already."""


class TooManySessionsError(Exception):
    """As many sessions as there may be wait to be finished, collected or deleted."""


class SessionRegistry:
    """All sessions by id. Times are seconds since the epoch, passed in."""

    def __init__(
        self, store: TrajectoryStore, *, most: int, idle_s: float, keeps_collected: bool = False
    ) -> None:
        """`most` counts those that are not collected. Of those that are as many are remembered, or all."""
        self.store = store
        self._most = most
        self._idle_s = idle_s
        self._keeps_collected = keeps_collected
        self._sessions: dict[str, AgentSession] = {}
        self._open: dict[str, AgentSession] = {}
        """Those that are open, the one used longest ago first."""
        self._collected: dict[str, AgentSession] = {}
        """Those that are collected, the first one first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[AgentSession]:
        return iter(list(self._sessions.values()))

    def find_session(self, session_id: str) -> AgentSession | None:
        """The session of id `session_id`, if there is one."""
        return self._sessions.get(session_id)

    def create_session(
        self,
        session_id: str | None,
        now: float,
        *,
        model: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AgentSession:
        """A new session, of a fresh id if none is given. Raises SessionExistsError, TooManySessionsError."""
        session_id = session_id or uuid.uuid4().hex
        if session_id in self._sessions:
            raise SessionExistsError(session_id)
        if len(self._sessions) - len(self._collected) >= self._most:
            raise TooManySessionsError(f"there are {self._most} sessions: collect or delete some")
        session = AgentSession(session_id, self.store, model, metadata or {}, now, now)
        self.adopt_session(session)
        return session

    def adopt_session(self, session: AgentSession) -> None:
        """Add `session` from the archive, whatever the limit; sessions used longest ago come first."""
        self._sessions[session.id] = session
        if session.state == "open":
            self._open[session.id] = session
        elif session.state == "collected":
            self._collected[session.id] = session

    def touch_session(self, session: AgentSession, now: float) -> None:
        """Note that `session` is used at `now`."""
        session.used = now
        if self._open.pop(session.id, None) is not None:
            self._open[session.id] = session

    def finish_session(self, session: AgentSession) -> None:
        """End `session`: no more calls follow. May be called again."""
        if session.state == "open":
            session.state = "finished"
            self._open.pop(session.id, None)

    def collect_session(self, session: AgentSession) -> None:
        """Release the tokens of `session`, whose samples have been collected."""
        session.state = "collected"
        self._open.pop(session.id, None)
        self._collected[session.id] = session
        session.release_tokens()
        if len(self._collected) > self._most and not self._keeps_collected:
            self.remove_session(next(iter(self._collected.values())))

    def remove_session(self, session: AgentSession) -> None:
        """Remove `session` and release its tokens."""
        self._sessions.pop(session.id, None)
        self._open.pop(session.id, None)
        self._collected.pop(session.id, None)
        session.release_tokens()

    def finish_idle(self, now: float) -> list[AgentSession]:
        """Finish the sessions that were idle for too long before `now`; returns them."""
        idle = []
        for session in self._open.values():
            if session.used > now - self._idle_s:
                break
            if not session.turns:
                idle.append(session)
        for session in idle:
            self.finish_session(session)
        return idle

    def check(self) -> None:
        """Recompute everything from scratch and compare. Raises AssertionError in words."""
        used = [session.used for session in self._open.values()]
        assert used == sorted(used), "sessions are not in the order of their use"
        states = {session.id for session in self._sessions.values() if session.state == "open"}
        assert states == set(self._open), "other sessions are open than they say"
        states = {session.id for session in self._sessions.values() if session.state == "collected"}
        assert states == set(self._collected), "other sessions are collected than they say"
        for session in self._sessions.values():
            session.check()
