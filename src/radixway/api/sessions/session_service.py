"""The store of agent sessions: in memory, and in their file where one is configured."""

import asyncio
import logging
import re
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from radixway.api.sessions.errors import (
    SessionArchiveError,
    SessionConflictError,
    SessionLimitError,
    SessionNotFoundError,
)
from radixway.api.sessions.model_codec import ModelCodec, ModelCodecs
from radixway.core.component import CannotErase, Component, Subject
from radixway.core.config import DEFAULT_TENANT, ConfigError, TrajectoriesConfig
from radixway.core.pipeline import BadRequest, GatewayError, TokenizerOf
from radixway.core.work_slices import run_in_slices
from radixway.trajectories import MemoryBudget, PathHold, StoreFullError, TrajectoryStore, remove_paths
from radixway.trajectories.generate_replies import SampledTokens
from radixway.trajectories.sessions import (
    AgentSession,
    CallRequest,
    PendingCall,
    SessionArchive,
    SessionCall,
    SessionExistsError,
    SessionPrompt,
    SessionRegistry,
    TooManySessionsError,
    TrainingSample,
    make_samples,
    match_history,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_USERS = 64
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~@+-]{0,127}")


@dataclass(slots=True)
class _Erased:
    """What remains to be erased of a session that is no longer found."""

    session: AgentSession
    holds: list[PathHold]
    in_file: bool = True


class SessionService(Component):
    """All sessions of a gateway. Its methods run on the event loop; the archive has a thread of its own."""

    name = "sessions"
    erasable_by = frozenset({"tenant", "user", "session"})

    def __init__(
        self,
        section: TrajectoriesConfig,
        tokenizer_of: TokenizerOf,
        clock: Callable[[], float] = time.time,
        memory: MemoryBudget | None = None,
        owns: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`owns`: whether a session of the file is this process's, by its id."""
        self._section = section.sessions
        self.codecs = ModelCodecs(tokenizer_of)
        self.clock = clock
        self._owns = owns
        self.book = SessionRegistry(
            TrajectoryStore(max_bytes=section.max_bytes, memory=memory),
            max_sessions=self._section.most,
            idle_s=self._section.idle_s,
            keeps_collected=self._section.path is not None,
        )
        self._archive: SessionArchive | None = None
        self._thread = ThreadPoolExecutor(1, "radixway-sessions")
        self._loading = asyncio.Lock()
        self._erased: list[_Erased] = []

    async def start(self) -> None:
        """Open the archive, if one is configured, and load its sessions. Raises ConfigError."""
        path = self._section.path
        if path is None:
            return
        loop = asyncio.get_running_loop()
        try:
            self._archive = await loop.run_in_executor(self._thread, SessionArchive, path.expanduser())
            found = await self._with_archive(lambda archive: list(archive.load_sessions(self.book.store)))
        except (sqlite3.Error, ValueError, OSError, SessionArchiveError) as error:
            await self.stop()
            raise ConfigError(f"trajectories.sessions.path: {path} cannot be used: {error}") from error
        for session in found or ():
            if self._owns(session.id):
                self.book.adopt_session(session)

    async def stop(self) -> None:
        """Close the file; everything is written."""
        if self._archive is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._archive.close_file)
        self._thread.shutdown(wait=False)

    async def erase(self, subject: Subject) -> int:
        """Erase the sessions that `subject` means, each as a whole, and return how many. Calls under way end
        as they would, and are not saved. A session with more users than are remembered may be anybody's.
        """
        meant = [session for session in self.book if _is_meant(session, subject)]
        for session in meant:
            holds = [call.hold for call in session.calls.values() if call.hold is not None]
            holds += [turn.hold for turn in session.turns]
            self._erased.append(_Erased(session, holds))
            self.book.remove_session(session)
        try:
            for left in self._erased:
                if left.in_file:
                    await self.delete_from_file(left.session.id, scrub=True)
                    left.in_file = False
        except SessionArchiveError as error:
            raise CannotErase(str(error)) from None
        for left in [left for left in self._erased if not left.session.turns]:
            remove_paths({hold.node: self.book.store for hold in left.holds})
            self._erased.remove(left)
        if self._erased:
            raise CannotErase(f"calls of {len(self._erased)} sessions are under way")
        return len(meant)

    async def create_session(
        self, session_id: str | None, model: str | None = None, metadata: dict[str, Any] | None = None
    ) -> AgentSession:
        """Create a session for `model`. Raises BadRequest, SessionConflictError, SessionLimitError."""
        if session_id is not None and not _ID.fullmatch(session_id):
            raise BadRequest(
                "session_id: 1 to 128 letters, digits and . _ : ~ @ + -, beginning with a letter or digit",
                param="session_id",
            )
        try:
            session = self.book.create_session(session_id, self.clock(), model=model, metadata=metadata)
        except SessionExistsError:
            raise SessionConflictError(
                f"there is a session {session_id!r} already", code="session_exists", param="session_id"
            ) from None
        except TooManySessionsError as error:
            raise SessionLimitError(str(error), code="too_many_sessions") from None
        await self.save_session(session)
        return session

    async def find_session(self, session_id: str) -> AgentSession:
        """Return the session with its calls, if it was not collected. Raises SessionNotFoundError."""
        await self.finish_idle_sessions()
        session = self.book.find_session(session_id)
        if session is None:
            raise SessionNotFoundError(session_id)
        if session.state != "collected":
            await self.load_calls(session)
        return session

    async def session_for_call(
        self, session_id: str, tenant: str | None = None, user: str | None = None
    ) -> AgentSession:
        """The session that an agent calls, made if need be. Raises SessionNotFoundError,
        SessionConflictError …

        `tenant`: owns the session from then on; other tenants' agents do not see it. `user`: the caller's id.
        """
        owned = {} if tenant is None else {"tenant": tenant}
        if self.book.find_session(session_id) is None and self._section.on_first_use:
            callers: dict[str, Any] = {} if user is None else {"users": [user]}
            return await self.create_session(session_id, metadata=owned | callers or None)
        session = await self.find_session(session_id)
        if tenant is not None and session.metadata.get("tenant", tenant) != tenant:
            raise SessionNotFoundError(session_id)
        _check_open(session)
        users = users_of(session)
        is_new = user is not None and user not in users and len(users) < _MAX_USERS
        if is_new or not owned.items() <= session.metadata.items():
            session.metadata |= owned | ({"users": [*users, user]} if is_new else {})
            await self.save_session(session)
        self.book.touch_session(session, self.clock())
        return session

    async def finish_idle_sessions(self) -> None:
        """Finish the sessions that have been idle too long."""
        for session in self.book.finish_idle(self.clock()):
            await self.save_session(session)

    async def load_calls(self, session: AgentSession) -> None:
        """Load calls of `session` that only the file has. Raises SessionLimitError, SessionArchiveError."""
        if session.loaded or self._archive is None:
            return
        async with self._loading:
            if session.loaded:
                return
            try:
                calls = await self._with_archive(lambda archive: archive.load_calls(session.id)) or []
            except (KeyError, TypeError, ValueError) as error:
                log.error("the sessions' file %s: calls of %s: %r", self._section.path, session.id, error)
                raise SessionArchiveError(
                    f"the file's record of the session {session.id!r} is damaged"
                ) from None
            if session.loaded or self.book.find_session(session.id) is not session:
                return
            try:
                for call, added in calls:
                    session.restore_call(call, added)
            except StoreFullError as error:
                session.forget_calls()
                session.stored_calls = len(calls)
                raise _store_full_error(error) from None
            session.loaded = True

    async def begin_turn(
        self, session: AgentSession, wanted: CallRequest, codec: ModelCodec
    ) -> tuple[SessionPrompt, PendingCall]:
        """Match the request to the history, build its prompt and lock it. Raises TemplateError, ValueError …

        `record_call` or `drop_call` ends the turn. Raises SessionConflictError if the session was finished.
        """
        known = match_history(session, wanted)
        reply_ids: list[int] = []
        if known.call is not None:
            assert known.call.hold is not None
            reply_ids = session.store.token_ids(known.call.hold)[known.call.sampled_at :].tolist()
        prompt = await asyncio.to_thread(codec.prompting.build_prompt, wanted, known, reply_ids)
        if self.book.find_session(session.id) is not session:
            raise SessionNotFoundError(session.id)
        _check_open(session)
        try:
            turn = session.start_call(
                prompt.parent,
                prompt.ids,
                codec.tokenizer.token_bytes,
                frame=wanted.frame,
                model=codec.model,
                messages=prompt.messages,
                resumes=prompt.resumes,
                instructed=wanted.instructed and prompt.parent is None,
                deviations=prompt.deviations,
            )
        except StoreFullError as error:
            raise _store_full_error(error) from None
        return prompt, turn

    async def record_call(
        self,
        session: AgentSession,
        turn: PendingCall,
        call_id: str,
        sampled: SampledTokens,
        codec: ModelCodec,
        **details: Any,
    ) -> SessionCall | None:
        """Save an answered call; None: its session is gone. Raises SessionLimitError, SessionArchiveError."""
        if self.book.find_session(session.id) is not session or session.state == "collected":
            session.drop_call(turn)
            return None
        now = self.clock()
        try:
            call, added = session.finish_call(
                turn, call_id, sampled, codec.tokenizer.token_bytes, created=now, **details
            )
        except StoreFullError as error:
            raise _store_full_error(error) from None
        self.book.touch_session(session, now)
        try:
            await self._with_archive(lambda archive: archive.write_call(session, call, added))
        except SessionArchiveError:
            # A call that is not in the file must have no followers in it.
            has_followers = call.children or any(turn.parent is call for turn in session.turns)
            if call.hold is not None and not has_followers:
                session.undo_call(call)
            raise
        return call

    async def set_reward(self, session: AgentSession, reward: float | None, call: SessionCall | None) -> None:
        """Set the `reward` of a session, or of one of its calls."""
        if call is None:
            session.reward = reward
            await self.save_session(session)
            return
        call.reward = reward
        await self._with_archive(lambda archive: archive.write_reward(call))

    async def finish_session(self, session: AgentSession) -> None:
        """Finish `session`: no more calls are to come."""
        self.book.finish_session(session)
        await self.save_session(session)

    async def training_samples(self, session: AgentSession) -> list[TrainingSample]:
        """Return the training samples of `session`. Raises GatewayError (410), SessionLimitError."""
        if session.state != "collected":
            await self.load_calls(session)
            return await run_in_slices(make_samples(session))
        self.check_readable(session)
        await self.load_calls(session)
        try:
            return await run_in_slices(make_samples(session))
        finally:
            session.forget_calls()

    async def mark_collected(self, session: AgentSession) -> None:
        """Release the tokens of `session`, whose samples have been fetched. Raises SessionConflictError."""
        if session.state == "collected":
            return
        self.check_collectable(session)
        self.book.collect_session(session)
        if self._archive is not None:
            session.forget_calls()
        for call in session.calls.values():
            call.experts = None  # by far the largest part of what is left of it
        await self.save_session(session)

    def check_collectable(self, session: AgentSession) -> None:
        """Raise SessionConflictError where more of `session` may still come."""
        if session.state == "open":
            raise SessionConflictError(
                f"the session {session.id!r} is not finished: POST /sessions/{session.id}/finish",
                code="session_open",
            )
        if session.turns:
            raise SessionConflictError(f"calls of {session.id!r} are still under way", code="session_busy")

    def check_readable(self, session: AgentSession) -> None:
        """Raise GatewayError (410) where the tokens of `session` are stored nowhere."""
        if session.state == "collected" and self._archive is None:
            message = f"the session {session.id!r} was collected, and no file keeps its tokens"
            raise GatewayError(message, status=410, code="session_collected")

    async def delete_session(self, session: AgentSession) -> None:
        """Delete `session`, its file's part too. Calls under way end as they would, and are not kept."""
        self.book.remove_session(session)
        await self.delete_from_file(session.id)

    async def delete_from_file(self, session_id: str, *, scrub: bool = False) -> None:
        """Delete `session_id` from the file; `scrub`: beyond recovery. Raises SessionArchiveError."""
        await self._with_archive(lambda archive: archive.delete_session(session_id))
        if scrub:
            await self._with_archive(lambda archive: archive.scrub_wal())

    async def save_session(self, session: AgentSession) -> None:
        """Write `session` to the file as it is now, its calls aside."""
        if self.book.find_session(session.id) is session:  # else it was deleted meanwhile
            await self._with_archive(lambda archive: archive.write_session(session))

    async def _with_archive(self, work: Callable[[SessionArchive], T]) -> T | None:
        """Return the result of `work`, run to its end in the archive's thread; None without an archive.

        Raises SessionArchiveError.
        """
        if self._archive is None:
            return None
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.shield(loop.run_in_executor(self._thread, work, self._archive))
        except sqlite3.Error as error:
            log.error("the sessions' file %s: %s", self._section.path, error)
            raise SessionArchiveError(f"the sessions' file cannot be used now: {error}") from None


def users_of(session: AgentSession) -> list[str]:
    """Return the known users of `session`."""
    users = session.metadata.get("users")
    return [user for user in users if isinstance(user, str)] if isinstance(users, list) else []


def _is_meant(session: AgentSession, subject: Subject) -> bool:
    if session.metadata.get("tenant", DEFAULT_TENANT) != subject.tenant:
        return False
    if subject.session not in (None, session.id):
        return False
    users = users_of(session)
    return subject.user is None or subject.user in users or len(users) >= _MAX_USERS


def _check_open(session: AgentSession) -> None:
    if session.state != "open":
        raise SessionConflictError(f"the session {session.id!r} is {session.state}", code="session_finished")


def _store_full_error(error: StoreFullError) -> SessionLimitError:
    return SessionLimitError(f"trajectories.max_bytes: {error}", code="store_full")
