"""Sessions: trees of calls whose tokens are held in the store; made, found, and finished when idle."""

import uuid
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Literal

from radixway.trajectories.generate_replies import SampledTokens
from radixway.trajectories.memory_budget import StoreFullError
from radixway.trajectories.sessions.call import AddedTokens, Finish, Message, PendingCall, SessionCall
from radixway.trajectories.store import PathHold, TrajectoryStore
from radixway.trajectories.token_records import Spans, TokenLabel, Version, join_spans
from radixway.trajectories.token_segment import TokenSegment

State = Literal["open", "finished", "collected"]

_PROMPT = TokenLabel("prompt", 0)


@dataclass(slots=True, eq=False)
class AgentSession:
    """An agent's conversations. Belongs to the event loop.

    `open`: calls may be made. `finished`: no more calls, the samples wait to be collected; nothing of it is
    evicted until then. `collected`: its tokens are no longer held.
    """

    id: str
    store: TrajectoryStore
    model: str | None = None
    """The model that answers, whatever a call names; None: the one it names."""
    metadata: dict[str, Any] = field(default_factory=dict)
    created: float = 0.0
    """Seconds since the epoch."""
    used: float = 0.0
    state: State = "open"
    reward: float | None = None
    calls: dict[str, SessionCall] = field(default_factory=dict)
    """By id, in the order in which they ended."""
    roots: list[SessionCall] = field(default_factory=list)
    loaded: bool = True
    """The calls are here; otherwise they are in the archive only."""
    stored_calls: int = 0
    """How many there are in the archive, while they are not here."""
    turns: set[PendingCall] = field(default_factory=set)

    @property
    def leaves(self) -> list[SessionCall]:
        """The calls that no other goes on from, in the order in which they ended."""
        return [call for call in self.calls.values() if not call.children]

    def start_call(
        self,
        parent: SessionCall | None,
        prompt: Sequence[int],
        token_bytes: Mapping[int, bytes],
        *,
        frame: bytes,
        model: str,
        messages: Iterable[Message],
        resumes: bool = False,
        instructed: bool = False,
        deviations: tuple[str, ...] = (),
    ) -> PendingCall:
        """Begin a call whose `prompt` tokens follow its parent's path, or are the whole prompt.

        Ends with `finish_call` or `drop_call`. Raises StoreFullError.
        """
        stretch = _added_tokens(prompt, [0.0] * len(prompt), ((len(prompt), _PROMPT),), token_bytes)
        hold = self._insert_tokens(parent.hold if parent is not None else None, model, stretch)
        begin = 0 if parent is None else parent.end
        turn = PendingCall(
            parent,
            frame,
            model,
            tuple(messages),
            hold,
            begin,
            begin + len(prompt),
            stretch,
            resumes,
            instructed,
            deviations,
        )
        self.turns.add(turn)
        return turn

    def drop_call(self, turn: PendingCall) -> None:
        """Drop the call `turn`, which got no answer. May be called after `finish_call`, and again."""
        if turn in self.turns:
            self.turns.remove(turn)
            self.store.release_hold(turn.hold)

    def finish_call(
        self,
        turn: PendingCall,
        call_id: str,
        sampled: SampledTokens,
        token_bytes: Mapping[int, bytes],
        answer: Message,
        finish: Finish,
        **more: Any,
    ) -> tuple[SessionCall, AddedTokens]:
        """Finish `turn` with its answer; returns the call and all tokens it added, for the archive. Raises
        StoreFullError.

        `more`: fields of `SessionCall`. Without a log-probability, the call says that it is not
        exact.
        """
        stretch = _added_tokens(sampled.ids, sampled.logprobs, sampled.spans, token_bytes)
        self.turns.discard(turn)
        hold = self._extend_path(turn.hold, stretch, sampled.version)
        missing = any(map(isnan, sampled.logprobs))
        call = SessionCall(
            call_id,
            turn.parent,
            turn.frame,
            turn.model,
            turn.messages,
            answer,
            turn.begin,
            turn.sampled_at,
            turn.sampled_at + len(sampled.ids),
            finish,
            hold=hold,
            experts=sampled.experts,
            resumes=turn.resumes,
            instructed=turn.instructed,
            exact=not missing,
            deviations=turn.deviations
            + (("the worker sent no log-probability of some tokens",) if missing else ()),
            **more,
        )
        self._claim_bytes(call)
        self._add_call(call)
        return call, _join_added(turn.prompt, stretch)

    def undo_call(self, call: SessionCall) -> None:
        """Remove a finished `call` that nothing has continued yet."""
        assert not call.children and call.hold is not None
        del self.calls[call.id]
        (self.roots if call.parent is None else call.parent.children).remove(call)
        self.store.release_hold(call.hold)
        call.hold = None
        self._release_bytes(call)

    def restore_call(self, call: SessionCall, added: AddedTokens) -> None:
        """Restore `call` from the archive, after its parent. Raises StoreFullError."""
        parent = call.parent.hold if call.parent is not None else None
        call.hold = self._insert_tokens(parent, call.model, added)
        self._claim_bytes(call)
        self._add_call(call)

    def release_tokens(self) -> None:
        """Stop holding the session's tokens; calls under way end as usual."""
        for call in self.calls.values():
            if call.hold is not None:
                self.store.release_hold(call.hold)
                call.hold = None
                self._release_bytes(call)
        self.store.paths.forget_session(self.id)

    def forget_calls(self) -> None:
        """Release the session's calls, which are in the archive."""
        self.release_tokens()
        self.stored_calls = len(self.calls)
        self.calls, self.roots, self.loaded = {}, [], False

    def check(self) -> None:
        """Recompute everything from scratch and compare. Raises AssertionError with the difference."""
        for call in self.calls.values():
            siblings = self.roots if call.parent is None else call.parent.children
            assert call in siblings, "a call does not hang where it says"
            assert call.begin == (0 if call.parent is None else call.parent.end), "a call begins elsewhere"
            assert call.begin <= call.sampled_at <= call.end, "a call's parts are out of order"
            assert (call.hold is None) == (self.state == "collected"), "a call is held at the wrong time"
            assert call.hold is None or call.hold.tokens == call.end, "a call ends elsewhere than its path"
        below = sum(len(call.children) for call in self.calls.values())
        assert below + len(self.roots) == len(self.calls), "a call hangs in two places, or in none"

    def _claim_bytes(self, call: SessionCall) -> None:
        """Count what `call` has besides tokens. Raises StoreFullError after releasing its hold."""
        try:
            self.store.memory.claim_bytes(call.claimed_bytes)
        except StoreFullError:
            assert call.hold is not None
            self.store.release_hold(call.hold)
            raise

    def _release_bytes(self, call: SessionCall) -> None:
        self.store.memory.release_bytes(call.claimed_bytes)

    def _add_call(self, call: SessionCall) -> None:
        self.calls[call.id] = call
        (self.roots if call.parent is None else call.parent.children).append(call)

    def _insert_tokens(self, after: PathHold | None, model: str, stretch: AddedTokens) -> PathHold:
        if after is not None:
            return self._extend_path(self.store.hold_path(after), stretch, None)
        given = _token_segment(stretch)
        return self.store.insert(given, session=self.id, namespace=model, ends=stretch.ends)

    def _extend_path(self, hold: PathHold, stretch: AddedTokens, version: Version | None) -> PathHold:
        given = _token_segment(stretch)
        return self.store.extend_path(hold, given, version, session=self.id, ends=stretch.ends)


def _added_tokens(
    ids: Sequence[int], logprobs: Sequence[float], spans: Spans, token_bytes: Mapping[int, bytes]
) -> AddedTokens:
    pieces = [token_bytes[token_id] for token_id in ids]
    ends, end = array("I"), 0
    for piece in pieces:
        end += len(piece)
        ends.append(end)
    return AddedTokens(array("I", ids), array("f", logprobs), spans if ids else (), b"".join(pieces), ends)


def _join_added(first: AddedTokens, second: AddedTokens) -> AddedTokens:
    size = len(first.text)
    return AddedTokens(
        first.ids + second.ids,
        first.logprobs + second.logprobs,
        join_spans(first.spans, second.spans),
        first.text + second.text,
        first.ends + array("I", (size + end for end in second.ends)),
    )


def _token_segment(stretch: AddedTokens) -> TokenSegment:
    return TokenSegment.from_labels(stretch.ids, stretch.text, stretch.logprobs, stretch.spans)


class SessionExistsError(Exception):
    """A session of that id exists."""


class TooManySessionsError(Exception):
    """Too many sessions wait to be finished, collected or deleted."""


class SessionRegistry:
    """All sessions by id. Times are seconds since the epoch, passed in."""

    def __init__(
        self, store: TrajectoryStore, *, max_sessions: int, idle_s: float, keeps_collected: bool = False
    ) -> None:
        """`max_sessions` limits those that are not collected; as many collected ones are kept, or all."""
        self.store = store
        self._max_sessions = max_sessions
        self._idle_s = idle_s
        self._keeps_collected = keeps_collected
        self._sessions: dict[str, AgentSession] = {}
        self._open: dict[str, AgentSession] = {}
        """Open sessions, least recently used first."""
        self._collected: dict[str, AgentSession] = {}
        """Collected sessions, oldest first."""

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
        if len(self._sessions) - len(self._collected) >= self._max_sessions:
            raise TooManySessionsError(f"there are {self._max_sessions} sessions: collect or delete some")
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
        if len(self._collected) > self._max_sessions and not self._keeps_collected:
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
        """Recompute everything from scratch and compare. Raises AssertionError with the difference."""
        used = [session.used for session in self._open.values()]
        assert used == sorted(used), "sessions are not in the order of their use"
        states = {session.id for session in self._sessions.values() if session.state == "open"}
        assert states == set(self._open), "other sessions are open than they say"
        states = {session.id for session in self._sessions.values() if session.state == "collected"}
        assert states == set(self._collected), "other sessions are collected than they say"
        for session in self._sessions.values():
            session.check()
