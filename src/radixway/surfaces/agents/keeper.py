"""Keeps the sessions: in memory, and in their file where one is configured."""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from radixway.component import CannotErase, Component, Subject
from radixway.config import DEFAULT_TENANT, ConfigError, TrajectoriesSection
from radixway.pipeline import BadRequest, TokenizerOf
from radixway.surfaces.agents.errors import (
    ArchiveBroken,
    NoTokenizer,
    SessionConflict,
    SessionGone,
    SessionLimit,
    SessionNotFound,
)
from radixway.surfaces.agents.speaking import Speaking
from radixway.trajectories import Hold, Memory, StoreFull, TrajectoryStore, forget_paths
from radixway.trajectories.replies import Sampled
from radixway.trajectories.sessions import (
    Archive,
    Call,
    Prompt,
    Sample,
    Session,
    SessionBook,
    SessionExists,
    TooManySessions,
    Turn,
    Wanted,
    find_known,
    make_samples,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_MODELS = 64
_MOST_USERS = 64
"""Of one session that are remembered."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~@+-]{0,127}")


@dataclass(slots=True)
class _Erased:
    """What is still to be done of a session that nobody finds any more."""

    session: Session
    holds: list[Hold]
    in_file: bool = True


class SessionKeeper(Component):
    """All sessions of a gateway. Its methods are the event loop's; the file has a thread of its own."""

    name = "sessions"
    erasable_by = frozenset({"tenant", "user", "session"})

    def __init__(
        self,
        section: TrajectoriesSection,
        tokenizer_of: TokenizerOf,
        clock: Callable[[], float] = time.time,
        memory: Memory | None = None,
    ) -> None:
        self._section = section.sessions
        self._tokenizer_of = tokenizer_of
        self.clock = clock
        self.book = SessionBook(
            TrajectoryStore(max_bytes=section.max_bytes, memory=memory),
            most=self._section.most,
            idle_s=self._section.idle_s,
            keeps_collected=self._section.path is not None,
        )
        self._archive: Archive | None = None
        self._thread = ThreadPoolExecutor(1, "radixway-sessions")
        self._loading = asyncio.Lock()
        self._erased: list[_Erased] = []
        self._speaking: OrderedDict[str, Speaking] = OrderedDict()
        """By model, the one used longest ago first. Bounded: one tokenizer for all makes any name a model."""

    async def start(self) -> None:
        """Find what the file has, if there is one. Raises ConfigError for one that cannot be used."""
        path = self._section.path
        if path is None:
            return
        loop = asyncio.get_running_loop()
        try:
            archive = await loop.run_in_executor(self._thread, Archive, path.expanduser())
            self._archive = archive
            found = await self._in_archive(lambda: list(archive.sessions(self.book.store)))
        except (sqlite3.Error, ValueError, OSError, ArchiveBroken) as error:
            await self.stop()
            raise ConfigError(f"trajectories.sessions.path: {path} cannot be used: {error}") from error
        for session in found:
            self.book.take(session)

    async def stop(self) -> None:
        """Let go of the file; everything of it is written."""
        if self._archive is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._archive.close)
        self._thread.shutdown(wait=False)

    async def erase(self, subject: Subject) -> int:
        """See `Component`: how many sessions, each as a whole, whoever else called it. What is under way ends
        as it would, and is not kept. Of one that more called than are remembered it may be anybody.
        """
        meant = [session for session in self.book if _is_meant(session, subject)]
        for session in meant:
            holds = [call.hold for call in session.calls.values() if call.hold is not None]
            holds += [turn.hold for turn in session.turns]
            self._erased.append(_Erased(session, holds))
            self.book.remove(session)
        try:
            for left in self._erased:
                if left.in_file:
                    await self.delete_from_file(left.session.id, scrub=True)
                    left.in_file = False
        except ArchiveBroken as error:
            raise CannotErase(str(error)) from None
        for left in [left for left in self._erased if not left.session.turns]:
            forget_paths({hold.node: self.book.store for hold in left.holds})
            self._erased.remove(left)
        if self._erased:
            raise CannotErase(f"calls of {len(self._erased)} sessions are under way")
        return len(meant)

    async def speaking(self, model: str | None) -> Speaking:
        """How a model is spoken to. Raises NoTokenizer."""
        name, tokenizer = await self._tokenizer_of(model)
        if tokenizer is None:
            raise NoTokenizer(name or model or "")
        known = self._speaking.get(name)
        if known is None or known.tokenizer is not tokenizer:
            known = self._speaking[name] = Speaking(name, tokenizer)
        self._speaking.move_to_end(name)
        if len(self._speaking) > _MOST_MODELS:
            self._speaking.popitem(last=False)
        return known

    async def make(
        self, session_id: str | None, model: str | None = None, metadata: dict[str, Any] | None = None
    ) -> Session:
        """A new session. Raises BadRequest, SessionConflict, SessionLimit."""
        if session_id is not None and not _ID.fullmatch(session_id):
            raise BadRequest(
                "session_id: 1 to 128 letters, digits and . _ : ~ @ + -, beginning with a letter or digit",
                param="session_id",
            )
        try:
            session = self.book.make(session_id, self.clock(), model=model, metadata=metadata)
        except SessionExists:
            raise SessionConflict(
                f"there is a session {session_id!r} already", code="session_exists", param="session_id"
            ) from None
        except TooManySessions as error:
            raise SessionLimit(str(error), code="too_many_sessions") from None
        await self.write(session)
        return session

    async def find(self, session_id: str) -> Session:
        """The session, with its calls unless it was collected. Raises SessionNotFound."""
        await self.sweep()
        session = self.book.find(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        if session.state != "collected":
            await self.load(session)
        return session

    async def for_call(self, session_id: str, tenant: str | None = None, user: str | None = None) -> Session:
        """The session that an agent calls, made if need be. Raises SessionNotFound, SessionConflict …

        `tenant`: whose it is from then on; to another's agents there is no such session. `user`: who of the
        tenant calls it.
        """
        owned = {} if tenant is None else {"tenant": tenant}
        if self.book.find(session_id) is None and self._section.on_first_use:
            callers: dict[str, Any] = {} if user is None else {"users": [user]}
            return await self.make(session_id, metadata=owned | callers or None)
        session = await self.find(session_id)
        if tenant is not None and session.metadata.get("tenant", tenant) != tenant:
            raise SessionNotFound(session_id)
        _check_open(session)
        users = users_of(session)
        is_new = user is not None and user not in users and len(users) < _MOST_USERS
        if is_new or not owned.items() <= session.metadata.items():
            session.metadata |= owned | ({"users": [*users, user]} if is_new else {})
            await self.write(session)
        self.book.use(session, self.clock())
        return session

    async def sweep(self) -> None:
        """Finish what nobody used for long."""
        for session in self.book.finish_idle(self.clock()):
            await self.write(session)

    async def load(self, session: Session) -> None:
        """Have the calls of a session here that are in the file only. Raises SessionLimit, ArchiveBroken."""
        archive = self._archive
        if session.loaded or archive is None:
            return
        async with self._loading:
            if session.loaded:
                return
            try:
                calls = await self._in_archive(lambda: archive.calls(session.id))
            except (KeyError, TypeError, ValueError) as error:
                log.error("the sessions' file %s: calls of %s: %r", self._section.path, session.id, error)
                raise ArchiveBroken(f"the file's record of the session {session.id!r} is damaged") from None
            if session.loaded or self.book.find(session.id) is not session:
                return
            try:
                for call, added in calls:
                    session.restore(call, added)
            except StoreFull as error:
                session.forget_calls()
                session.stored_calls = len(calls)
                raise _full(error) from None
            session.loaded = True

    async def begin(self, session: Session, wanted: Wanted, speaking: Speaking) -> tuple[Prompt, Turn]:
        """Find where a request goes on, make its prompt, hold it. Raises TemplateError, ValueError …

        The turn ends with `end` or `drop`. Raises SessionConflict if the session was finished meanwhile.
        """
        known = find_known(session, wanted)
        reply_ids = self._reply_ids(session, known.call) if known.call is not None else []
        prompt = await asyncio.to_thread(speaking.prompting.make, wanted, known, reply_ids)
        if self.book.find(session.id) is not session:
            raise SessionNotFound(session.id)
        _check_open(session)
        try:
            turn = session.begin(
                prompt.parent,
                prompt.ids,
                speaking.tokenizer.token_bytes,
                frame=wanted.frame,
                model=speaking.model,
                messages=prompt.messages,
                resumes=prompt.resumes,
                instructed=wanted.instructed and prompt.parent is None,
                deviations=prompt.deviations,
            )
        except StoreFull as error:
            raise _full(error) from None
        return prompt, turn

    async def end(
        self, session: Session, turn: Turn, call_id: str, sampled: Sampled, speaking: Speaking, **told: Any
    ) -> Call | None:
        """A call has its answer: keep it. None if the session is gone. Raises SessionLimit, ArchiveBroken."""
        if self.book.find(session.id) is not session or session.state == "collected":
            session.drop(turn)
            return None
        now = self.clock()
        try:
            call, added = session.end(
                turn, call_id, sampled, speaking.tokenizer.token_bytes, created=now, **told
            )
        except StoreFull as error:
            raise _full(error) from None
        self.book.use(session, now)
        archive = self._archive
        if archive is not None:
            try:
                await self._in_archive(lambda: archive.write_call(session, call, added))
            except ArchiveBroken:
                # What is not in the file must have nothing in the file behind it.
                if call.hold is not None and not _goes_on(session, call):
                    session.take_back(call)
                raise
        return call

    async def reward(self, session: Session, reward: float | None, call: Call | None) -> None:
        """Set the reward of a session, or of one of its calls."""
        archive = self._archive
        if call is None:
            session.reward = reward
            await self.write(session)
            return
        call.reward = reward
        if archive is not None:
            await self._in_archive(lambda: archive.write_reward(call))

    async def finish(self, session: Session) -> None:
        """No more calls are to come."""
        self.book.finish(session)
        await self.write(session)

    async def samples(self, session: Session) -> list[Sample]:
        """Its training samples. Raises SessionGone, SessionLimit."""
        if session.state != "collected":
            await self.load(session)
            return list(make_samples(session))
        self.check_readable(session)
        await self.load(session)
        try:
            return list(make_samples(session))
        finally:
            session.forget_calls()

    async def collect(self, session: Session) -> None:
        """Its samples have been fetched: hold its tokens no longer. Raises SessionConflict."""
        if session.state == "collected":
            return
        self.check_collectable(session)
        self.book.collect(session)
        if self._archive is not None:
            session.forget_calls()
        for call in session.calls.values():
            call.experts = None  # by far the largest part of what is left of it
        await self.write(session)

    def check_collectable(self, session: Session) -> None:
        """Raises SessionConflict where more may still come."""
        if session.state == "open":
            raise SessionConflict(
                f"the session {session.id!r} is not finished: POST /sessions/{session.id}/finish",
                code="session_open",
            )
        if session.turns:
            raise SessionConflict(f"calls of {session.id!r} are still under way", code="session_busy")

    def check_readable(self, session: Session) -> None:
        """Raises SessionGone where nobody keeps its tokens."""
        if session.state == "collected" and self._archive is None:
            raise SessionGone(f"the session {session.id!r} was collected, and no file keeps its tokens")

    async def delete(self, session: Session) -> None:
        """Forget a session, its file's part too. Calls under way end as they would, and are not kept."""
        self.book.remove(session)
        await self.delete_from_file(session.id)

    async def delete_from_file(self, session_id: str, *, scrub: bool = False) -> None:
        """Forget what the file has of a session; with `scrub` nothing of it can be read there any more.

        Raises ArchiveBroken.
        """
        archive = self._archive
        if archive is None:
            return
        await self._in_archive(lambda: archive.delete(session_id))
        if scrub:
            await self._in_archive(archive.scrub)

    async def write(self, session: Session) -> None:
        """Have the session in the file as it is now, its calls aside."""
        archive = self._archive
        if archive is not None and self.book.find(session.id) is session:  # else it was deleted meanwhile
            await self._in_archive(lambda: archive.write_session(session))

    def _reply_ids(self, session: Session, call: Call) -> list[int]:
        assert call.hold is not None
        return session.store.token_ids(call.hold)[call.sampled_at :].tolist()

    async def _in_archive(self, work: Callable[[], T]) -> T:
        """Work in the file's thread, to its end even if nobody waits for it. Raises ArchiveBroken."""
        try:
            return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
        except sqlite3.Error as error:
            log.error("the sessions' file %s: %s", self._section.path, error)
            raise ArchiveBroken(f"the sessions' file cannot be used now: {error}") from None


def users_of(session: Session) -> list[str]:
    """Who called it, as far as anybody said."""
    users = session.metadata.get("users")
    return [user for user in users if isinstance(user, str)] if isinstance(users, list) else []


def _is_meant(session: Session, subject: Subject) -> bool:
    if session.metadata.get("tenant", DEFAULT_TENANT) != subject.tenant:
        return False
    if subject.session not in (None, session.id):
        return False
    users = users_of(session)
    return subject.user is None or subject.user in users or len(users) >= _MOST_USERS


def _check_open(session: Session) -> None:
    if session.state != "open":
        raise SessionConflict(f"the session {session.id!r} is {session.state}", code="session_finished")


def _goes_on(session: Session, call: Call) -> bool:
    return bool(call.children) or any(turn.parent is call for turn in session.turns)


def _full(error: StoreFull) -> SessionLimit:
    return SessionLimit(f"trajectories.max_bytes: {error}", code="store_full")
