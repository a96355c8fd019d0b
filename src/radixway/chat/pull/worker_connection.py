"""One connection of a pull worker: an error in one request affects that request alone."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy.exc import SQLAlchemyError

from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.answer_attempt import AnswerAttempt
from radixway.chat.pull.dialects import WorkerDialect
from radixway.chat.pull.frames import (
    AnyWorkerFrame,
    DrainFrame,
    ErrorFrame,
    GeneratedTextFrame,
    InvalidFrameError,
    PluginStepFrame,
    PongFrame,
    SafePromptFrame,
    TokenFrame,
    encode_server_frame,
)
from radixway.chat.pull.published_work import UnreadableWorkError
from radixway.chat.pull.worker_sessions import WorkerSession

log = logging.getLogger(__name__)

LEFT = "Aborted due to worker error."
"""Reason, in the published words, when a worker leaves during an answer."""
LEFT_FOR_ANOTHER = "The worker left, as it may seem for another answer."
_REASONS = {"eos_token": "stop", "stop_sequence": "stop", "length": "length"}
"""Finish reasons: the published words, and OpenAI's, which are stored."""
SILENT = "The worker has sent nothing for this answer for too long."
_MAX_ERROR_CHARACTERS = 2000
_RETRY_DELAY_S = 1.0
"""Pause before a database that did not answer is asked again."""


class ConnectionGoneError(Exception):
    """The connection is closed."""


class WorkerSocket(Protocol):
    """A WebSocket."""

    async def receive(self) -> str | bytes:
        """A frame. Raises ConnectionGoneError."""
        ...

    async def send(self, frame: bytes) -> None:
        """Send `frame`, JSON, as text. Raises ConnectionGoneError."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """Close with `code` and `reason`."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerTimeouts:
    """Timeouts for a silent worker, in seconds."""

    ping_s: float = 3.0
    """Silence until a ping."""
    inactivity_s: float = 300.0
    """Silence until the worker counts as gone."""
    answer_s: float = 600.0
    """Without a word of a request that it has, until that is tried elsewhere."""
    send_s: float = 30.0
    """Time that the worker may leave frames unread while the connection is full."""


@dataclass(slots=True)
class _AssignedWork:
    """A request that the worker has."""

    attempt: AnswerAttempt
    since: float
    last_frame_at: float
    """By the loop's time."""
    first: float | None = None
    tokens: int = 0
    timed_out: bool = False
    """It was taken away because the worker was silent."""
    has_replied: bool = False
    watching_loss: asyncio.Task[None] | None = None
    sending: asyncio.Task[None] | None = None
    """Sends it to the worker; None: it waits for that."""
    is_sent: bool = False

    @property
    def is_reply_due(self) -> bool:
        return not self.timed_out and self.sending is not None


@dataclass(slots=True)
class PullWorker:
    """The server's side of a connection, from the first frame to its end. Belongs to one event loop."""

    socket: WorkerSocket
    dialect: WorkerDialect
    session: WorkerSession
    answers: ActiveAnswers
    clock: Callable[[], float]
    timeouts: WorkerTimeouts = field(default_factory=WorkerTimeouts)
    safety_level: int | None = None
    """How strict its own safety is to be; None: as strict as the level that is in force for the answer."""
    _work: dict[str, _AssignedWork] = field(default_factory=dict)
    _capacity: asyncio.Semaphore = field(init=False)
    _ending: set[asyncio.Task[None]] = field(default_factory=set)
    _dispatching: asyncio.Task[None] | None = None
    _last_frame_at: float = 0.0
    _busy_at: float = 0.0
    _stalled: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _suspect: str | None = None
    """The request that was sent last, until the worker answers: the suspected cause if it leaves."""

    def __post_init__(self) -> None:
        self._capacity = asyncio.Semaphore(self.session.info.config.max_parallel_requests)

    async def serve_worker(self) -> None:
        """Serve until the worker leaves or has to; its jobs are given back then."""
        self._last_frame_at = self._busy_at = asyncio.get_running_loop().time()
        self._dispatching = asyncio.create_task(self._dispatch_loop())
        works = self._read_frames(), self._watch_silence(), self._raise_when_stalled()
        tasks = {asyncio.create_task(work) for work in works}
        waiting: set[asyncio.Task[None]] = {*tasks, self._dispatching}
        try:
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if done != {self._dispatching} or not self._dispatching.cancelled():
                    break  # a worker that drains is given nothing, and still listened to
            for task in done:
                if not task.cancelled() and not isinstance(task.exception(), ConnectionGoneError | None):
                    log.error("a worker's connection failed unexpectedly", exc_info=task.exception())
        finally:
            await self._abandon_work({*tasks, self._dispatching})

    async def _abandon_work(self, tasks: set[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._ending, return_exceptions=True)
        for request_id in tuple(self._work):
            work = self._drop_work(request_id)
            if work is not None:
                await _ignore_outage(self._return_work(work))

    async def _return_work(self, work: _AssignedWork) -> None:
        """Give back the worker's jobs after it left. The one sent last, without an answer, may be the cause
        and counts as an attempt. Others are spared once: a second time they may be the cause, too.
        """
        attempt = work.attempt
        if not work.is_sent:
            await attempt.give_back_job(LEFT)
        elif attempt.job.attempt_id == self._suspect or attempt.job.last_error == LEFT_FOR_ANOTHER:
            await attempt.fail_answer(LEFT)
        else:
            await attempt.give_back_job(LEFT, noted=LEFT_FOR_ANOTHER)

    async def _dispatch_loop(self) -> None:
        """Fetch jobs while there is room for them.

        Published workers close their connection at a job that they cannot read, and after every error. What
        another left for is sent when nothing else is in flight, and nothing else until it has a reply.
        """
        queue = self.session.model.compat_hash
        config = self.session.to_row()["info"]["config"]
        while True:
            await self._capacity.acquire()
            try:
                attempt = await self.answers.claim_job(
                    [queue], worker=config, worker_id=self.session.worker_id
                )
            except SQLAlchemyError as error:
                log.warning("the database does not answer: %s", type(error).__name__)
                self._capacity.release()
                await asyncio.sleep(_RETRY_DELAY_S)
                continue
            work = _AssignedWork(attempt, self.clock(), asyncio.get_running_loop().time())
            request_id = attempt.job.attempt_id
            self._work[request_id] = work
            self.session.in_flight = len(self._work)
            work.watching_loss = asyncio.create_task(self._on_lost(work))
            is_left = attempt.job.last_error == LEFT
            while is_left and len(self._work) > 1 and request_id in self._work:
                await self._next_change()
            if request_id in self._work:
                work.last_frame_at = asyncio.get_running_loop().time()
                work.sending = asyncio.create_task(_ignore_outage(self._send_work(work)))
            while is_left and not (work.has_replied or attempt.lost.is_set()) and request_id in self._work:
                await self._next_change()

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _send_work(self, work: _AssignedWork) -> None:
        """Send a request; judging one question must not delay others."""
        attempt = work.attempt
        try:
            if not await attempt.screen_question():
                self._drop_work(attempt.job.attempt_id)
                return
            level = attempt.safety_level if self.safety_level is None else self.safety_level
            frame = self.dialect.encode_work(attempt, self.clock(), level)
        except SQLAlchemyError:
            attempt.mark_lost()  # it starts again once its lease has run out
            self._drop_work(attempt.job.attempt_id)
            raise
        except UnreadableWorkError as error:
            self._drop_work(attempt.job.attempt_id)
            await attempt.fail_answer(str(error), again=False)
            return
        except Exception as error:  # any error concerns this answer alone
            log.exception("an answer failed unexpectedly")
            self._drop_work(attempt.job.attempt_id)
            await attempt.fail_answer(f"internal error ({type(error).__name__})", again=False)
            return
        work.is_sent, self._suspect = True, attempt.job.attempt_id
        await self._send_frame(frame)

    async def _on_lost(self, work: _AssignedWork) -> None:
        """Drop a lost request. A worker that cannot be told works on and stays occupied until it ends."""
        await work.attempt.lost.wait()
        self._changed.set()
        request_id = work.attempt.job.attempt_id
        if not work.is_sent:
            self._drop_work(request_id)
        elif "cancel" in self.session.info.extensions and self._drop_work(request_id) is not None:
            await self._send_frame(encode_server_frame(request_id, "cancel", request_id=request_id))

    async def _raise_when_stalled(self) -> None:
        await self._stalled.wait()
        raise ConnectionGoneError

    async def _watch_silence(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            overdue = self._end_overdue(now)
            if now >= self._last_frame_at + self.timeouts.inactivity_s:
                await self.socket.close(1008, "silent for too long")
                raise ConnectionGoneError
            if now >= self._busy_at + self.timeouts.ping_s:
                self._busy_at = now
                ping = self.dialect.encode_ping()
                if ping is not None:
                    await self._send_frame(ping)
            gone_at = self._last_frame_at + self.timeouts.inactivity_s
            due = min(gone_at, self._busy_at + self.timeouts.ping_s, overdue)
            await asyncio.sleep(due - now if due > now else 0)

    def _end_overdue(self, now: float) -> float:
        for work in self._work.values():
            if not work.is_reply_due or now < work.last_frame_at + self.timeouts.answer_s:
                continue
            work.timed_out = True
            self._run_aside(self._fail_silent(work.attempt))
        latest = (work.last_frame_at for work in self._work.values() if work.is_reply_due)
        return min(latest, default=now) + self.timeouts.answer_s

    async def _fail_silent(self, attempt: AnswerAttempt) -> None:
        await attempt.fail_answer(SILENT)
        attempt.mark_lost()

    async def _read_frames(self) -> None:
        while True:
            raw = await self.socket.receive()
            self._last_frame_at = self._busy_at = asyncio.get_running_loop().time()
            self.session.last_seen = self.clock()
            try:
                frames = self.dialect.read_frames(raw)
            except InvalidFrameError as error:
                await self._on_invalid_frame(error)
                continue
            for frame in frames:
                try:
                    await self._handle_frame(frame)
                except SQLAlchemyError as error:
                    log.warning("the database does not answer: %s", type(error).__name__)

    async def _on_invalid_frame(self, error: InvalidFrameError) -> None:
        log.warning("worker %s sent an unreadable frame: %s", self.session.worker_id, error)
        work = None if error.request_id is None else self._work.get(error.request_id)
        if work is not None:
            await _ignore_outage(work.attempt.fail_answer(f"the worker's frame cannot be read: {error}"))

    async def _handle_frame(self, frame: AnyWorkerFrame) -> None:
        """Handle a frame; one for a request that is not in flight is dropped."""
        if isinstance(frame, TokenFrame):  # before all that is rare
            work = self._work.get(frame.request_id or "")
            if work is not None:
                if work.first is None:
                    work.first = self.clock()
                    self._mark_replied(work)
                work.tokens += frame.tokens
                work.last_frame_at = self._last_frame_at
                await work.attempt.send_text(frame.text)
            return
        if isinstance(frame, DrainFrame):
            assert self._dispatching is not None
            self._dispatching.cancel()
            for work in [queued for queued in self._work.values() if queued.sending is None]:
                self._end_attempt(work.attempt, work.attempt.give_back_job("the worker drains"))
            return
        if isinstance(frame, PongFrame | GeneratedTextFrame | ErrorFrame):
            self.session.metrics = frame.metrics or self.session.metrics
        if isinstance(frame, PongFrame):
            pong = self.dialect.encode_pong(frame.metrics)
            if pong is not None:
                await self._send_frame(pong)
            return
        if isinstance(frame, ErrorFrame):
            self._suspect = None  # published workers leave after each of them
        work = self._work.get(frame.request_id or "")
        if work is None:
            return
        attempt, work.last_frame_at = work.attempt, self._last_frame_at
        self._mark_replied(work)
        if isinstance(frame, PluginStepFrame):
            await attempt.send_plugin_step(
                frame.current_plugin_thought,
                frame.current_plugin_action_taken,
                frame.current_plugin_action_input,
                frame.current_plugin_action_response,
            )
        elif isinstance(frame, SafePromptFrame):
            level = frame.safety_parameters.level
            await attempt.record_safe_prompt(frame.safe_prompt, level, frame.safety_label, frame.safety_rots)
        elif isinstance(frame, GeneratedTextFrame):
            self._end_attempt(attempt, self._finish_work(work, frame))
        else:
            self._end_attempt(attempt, attempt.fail_answer(frame.error[:_MAX_ERROR_CHARACTERS] or LEFT))

    def _mark_replied(self, work: _AssignedWork) -> None:
        work.has_replied = True
        if self._suspect == work.attempt.job.attempt_id:
            self._suspect = None
        self._changed.set()

    def _end_attempt(self, attempt: AnswerAttempt, ending: Coroutine[Any, Any, Any]) -> None:
        """End an attempt without delaying the worker's other requests."""
        self._drop_work(attempt.job.attempt_id)
        self._run_aside(ending)

    def _run_aside(self, ending: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(_ignore_outage(ending))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _finish_work(self, work: _AssignedWork, frame: GeneratedTextFrame) -> None:
        now = self.clock()
        self.session.record_answer(now - work.since, work.tokens, now - (work.first or now))
        usage = {"completion_tokens": work.tokens}
        reason = _REASONS.get(frame.finish_reason or "")
        await work.attempt.finish_answer(
            frame.text, usage=usage, finish_reason=reason, used_plugin=frame.used_plugin
        )

    def _drop_work(self, request_id: str) -> _AssignedWork | None:
        work = self._work.pop(request_id, None)
        if work is None:
            return None
        self.session.in_flight = len(self._work)
        self._changed.set()
        self._capacity.release()
        for task in (work.watching_loss, work.sending):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        return work

    async def _send_frame(self, frame: bytes) -> None:
        self._busy_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.timeouts.send_s):
                with suppress(ConnectionGoneError):  # reading ends with it, too, and says so
                    await self.socket.send(frame)
        except TimeoutError:
            self._stalled.set()


async def _ignore_outage(step: Coroutine[Any, Any, Any]) -> None:
    """Run `step`; a database that does not answer costs no connection, because the job's lease runs out."""
    try:
        await step
    except SQLAlchemyError as error:
        log.warning("the end of an answer could not be saved: %s", type(error).__name__)
