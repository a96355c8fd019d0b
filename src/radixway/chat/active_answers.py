"""Answers in flight in this process: their jobs, logs and leases, and the clock that ends what is overdue."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from radixway.chat import published_shapes
from radixway.chat.answer_attempt import AnswerAttempt, FlushTimer, PartialAnswerSaver
from radixway.chat.background_tasks import run_concurrently
from radixway.chat.database_outages import RETRY_S, LeaseOutageGuard
from radixway.chat.ids import new_id
from radixway.chat.job_queue import AnswerJobQueue
from radixway.chat.messages import AnswerRequest, MessageStore, WhileBusy
from radixway.chat.notifications import ALL_TOPICS, TopicEvents, TopicNotifier, wait_for_event, wait_for_first
from radixway.chat.records import Message, MessageState
from radixway.chat.safety.safety_screen import SafetyScreen
from radixway.chat.token_log import TokenLog, TokenLogEntry

log = logging.getLogger(__name__)

CLOCK = "clock"
"""The topic of `TopicNotifier` for times that may have changed."""
_ANSWER = "answer:"
"""Topic prefix, before a message id, for answers that ended or moved to another worker."""
_FLUSH_INTERVAL_S = 0.015
"""Tokens of all answers within this time are published together."""
_ON_ITS_WAY_S = 5.0
"""How long the last tokens of an ended answer may take to arrive from another process."""
_DOUBTS_S = 1.0
"""Between checks for overdue jobs while it is not known which leases count."""
_ANOTHERS_S = 0.1
"""How long to leave alone due jobs that another process is handling."""


@dataclass(slots=True)
class _QueueClaimLock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    found_nothing: list[asyncio.Event] = field(default_factory=list)
    """The events that were not set at the last look that found no job."""


class ActiveAnswers:
    """The attempts of this process. Belongs to one event loop, and works while `running()`."""

    def __init__(
        self,
        messages: MessageStore,
        jobs: AnswerJobQueue,
        tokens: TokenLog,
        wake: TopicNotifier,
        clock: Callable[[], float],
        *,
        keep_every_s: float = 1.0,
        screen: SafetyScreen | None = None,
    ) -> None:
        """`keep_every_s`: how often text so far is saved in the database. `screen`: see `AnswerAttempt`."""
        self.messages = messages
        self._jobs = jobs
        self._tokens = tokens
        self._wake = wake
        self._clock = clock
        self._screen = screen
        self._owner = new_id()
        self._events = TopicEvents()
        self._flush_timer = FlushTimer(_FLUSH_INTERVAL_S)
        self._attempts: dict[str, AnswerAttempt] = {}  # by attempt_id
        self._saver = PartialAnswerSaver(jobs, self._attempts, every_s=keep_every_s)
        self._aside: set[asyncio.Task[None]] = set()
        self._taking: dict[frozenset[str], _QueueClaimLock] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Renew leases and end overdue jobs while this holds; when it ends, give the attempts back."""
        async with self._tokens.running(), self._wake.running(self._on_notification):
            try:
                async with run_concurrently(self._clock_loop, self._renew_loop, self._saver.save_loop):
                    yield
            finally:
                await asyncio.gather(*self._aside, return_exceptions=True)
                for attempt in tuple(self._attempts.values()):
                    try:
                        await attempt.give_back_job("the server is stopping")
                    except SQLAlchemyError as error:  # its lease runs out
                        log.warning("a job could not be given back: %s", type(error).__name__)
                await asyncio.gather(*self._aside, return_exceptions=True)

    async def request_answer(
        self,
        user_id: str,
        chat_id: str,
        question: AnswerRequest,
        *,
        while_busy: WhileBusy = "enqueue",
        spare_running: bool = False,
    ) -> Message:
        """Write an answer and its job as `MessageStore.request_answer` does, and wake its queue's workers."""
        message, ended = await self.messages.request_answer(
            user_id, chat_id, question, while_busy=while_busy, spare_running=spare_running
        )
        await self.announce_job(question.queue, ended)
        return message

    async def announce_job(self, queue: str, ended: Collection[str] = ()) -> None:
        """Wake the workers of `queue` for a new job; `ended`: answers that were cancelled for it."""
        for message_id in ended:
            await self._end_cancelled(message_id, None)
        await self._wake.notify_topic(queue)
        await self._wake.notify_topic(CLOCK)

    def topic_event(self, topic: str) -> asyncio.Event:
        """Return the event that is set when `topic` is announced next."""
        return self._events.topic_event(topic)

    async def notify_topic(self, topic: str) -> None:
        """Announce that something changed for `topic`, in every process."""
        await self._wake.notify_topic(topic)

    async def claim_job(
        self, queues: Collection[str], *, worker: dict[str, Any] | None = None, worker_id: str | None = None
    ) -> AnswerAttempt:
        """Wait for a job of `queues` and lease it; cancelling the wait costs no job.

        An event wakes all waiting tasks; they look one after the other, until one of them finds nothing.
        """
        taking = self._taking.setdefault(frozenset(queues), _QueueClaimLock())
        while True:
            events = [self._events.topic_event(queue) for queue in queues]
            async with taking.lock:
                attempt = None
                if taking.found_nothing != events:
                    try:
                        attempt = await self._claim_or_give_back(queues, worker, worker_id)
                    except SQLAlchemyError as error:
                        log.warning("the database does not answer: %s", type(error).__name__)
                        await asyncio.sleep(RETRY_S)
                        continue
                    taking.found_nothing = events if attempt is None else []
            if attempt is not None:
                return attempt
            await wait_for_first(events)

    async def _claim_or_give_back(
        self, queues: Collection[str], worker: dict[str, Any] | None, worker_id: str | None
    ) -> AnswerAttempt | None:
        claiming = asyncio.ensure_future(self._claim(queues, worker, worker_id))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            self._run_aside(self._give_back(claiming))
            raise

    async def _claim(
        self, queues: Collection[str], worker: dict[str, Any] | None, worker_id: str | None
    ) -> AnswerAttempt | None:
        """Return a claimed attempt, or None: there is no job, or its message was just deleted."""
        job = await self._jobs.claim_job(queues, self._owner, worker=worker, worker_id=worker_id)
        if job is None:
            return None
        thread = await self.messages.load_thread(job.message_id, job.chat_id)
        if not thread:
            self._events.set_topic(job.queue)  # there may be others
            return None
        log.info(
            "answer %s: attempt %d dispatched to %s",
            job.message_id,
            job.attempts,
            "the gateway's own workers" if worker_id is None else f"worker {worker_id}",
        )
        attempt = AnswerAttempt(
            job,
            thread,
            self.messages,
            self._jobs,
            self._tokens,
            self._flush_timer,
            self._release_attempt,
            self._notify_ended,
            self._screen,
        )
        self._attempts[job.attempt_id] = attempt  # the clock loop looks at least once per lease
        return attempt

    async def cancel_answer(self, user_id: str, message_id: str) -> bool:
        """End an answer, keeping its text. Returns False if it had ended. Raises ChatNotFoundError."""
        await self.messages.find_message(user_id, message_id)
        attempt = self._attempt_of(message_id)
        partial = attempt.text if attempt is not None and attempt.text else None
        if not await self._jobs.cancel_job(message_id, partial):
            return False
        await self._end_cancelled(message_id, partial)
        return True

    async def _end_cancelled(self, message_id: str, noted: str | None) -> None:
        """`noted`: the text that was saved with the cancellation; more may have come since."""
        attempt = self._attempt_of(message_id)
        if attempt is not None:
            attempt.mark_lost()
            if attempt.text and attempt.text != noted:
                await self._jobs.save_partial_answers({message_id: attempt.text}, MessageState.CANCELLED)
        await self._publish_end(message_id, MessageState.CANCELLED)

    async def cancel_chat(self, user_id: str, chat_id: str) -> None:
        """Cancel every answer in flight in `chat_id`. Raises ChatNotFoundError."""
        for message in await self.messages.list_messages(user_id, chat_id):
            if not message.state.is_final:
                await self.cancel_answer(user_id, message.id)

    async def drop_answers(self, message_ids: Collection[str]) -> None:
        """Stop the attempts of deleted messages, and delete their logs. `message_ids`: the deleted ones."""
        gone = frozenset(message_ids)
        for attempt in tuple(self._attempts.values()):
            if attempt.job.message_id in gone:
                attempt.mark_lost()
        await self._tokens.drop_logs(gone)
        for message_id in gone:
            await self._wake.notify_topic(_ANSWER + message_id)

    async def has_log(self, message_id: str) -> bool:
        """Return whether there is a token log of `message_id`, and not only its text in the database."""
        return await self._tokens.has_log(message_id)

    async def follow_answer(self, message: Message, after: int = 0) -> AsyncIterator[TokenLogEntry] | None:
        """Return the events of `message` after position `after`; None where its log has expired."""
        if message.state.is_final and not await self._tokens.has_log(message.id):
            if message.work_end_at is None or self._clock() - message.work_end_at >= self._tokens.kept_s:
                return None
            self._publish_stored(message)  # it ended recently, in another process
        return self._tokens.follow_log(message.id, after)

    async def _clock_loop(self) -> None:
        """Do what is due when it is due.

        Sleeps until then, until times change, or until the database is to be checked: a process that died
        with a new lease may not have announced it.
        """
        missed = False
        watch = LeaseOutageGuard(self._jobs.lease_s, self._clock())
        while True:
            event = self._events.topic_event(CLOCK)
            try:
                if missed:
                    await self._notify_ready_queues()
                    missed = False
                await wait_for_event(event, min(await self._run_due(watch), watch.every_s))
            except SQLAlchemyError as error:
                log.warning("the database does not answer: %s", type(error).__name__)
                missed = True
                await wait_for_event(event, RETRY_S)

    async def _run_due(self, watch: LeaseOutageGuard) -> float:
        """Return the seconds until more is due."""
        due, any_blocked = await self._jobs.next_due()
        watch.note_answer(self._clock())
        released = await self._jobs.release_waiting() if any_blocked else ()
        for queue in released:
            await self._wake.notify_topic(queue)
        if released:
            return 0.0  # their times count, too
        if due is None or due > self._clock():
            return self._jobs.lease_s if due is None else due - self._clock()
        await self._drop_lost(tuple(self._attempts))  # attempts of this process are alive, however late
        doubts_s = watch.doubt_s(self._clock())
        texts = {} if doubts_s else await self._lapsed_texts()
        reaped = await self._jobs.reap_overdue(texts, leases=not doubts_s)
        for message_id, attempt in reaped.restarted:
            await self._tokens.restart_attempt(message_id, attempt)
        for message_id, state in reaped.ended:
            await self._publish_end(message_id, state)
        await self._notify_ready_queues()
        return 0.0 if reaped else min(doubts_s, _DOUBTS_S) if doubts_s else _ANOTHERS_S

    async def _lapsed_texts(self) -> dict[str, str]:
        """Texts of answers without a worker, by message, where more is known than was saved."""
        words = {}
        for message_id, attempt, noted in await self._jobs.find_lapsed():
            text = await self._tokens.attempt_text(message_id, attempt)
            if len(text) > len(noted or ""):
                words[message_id] = text
        return words

    async def _notify_ready_queues(self) -> None:
        for queue in await self._jobs.ready_queues():
            await self._wake.notify_topic(queue)

    async def _renew_loop(self) -> None:
        """Renew leases, drop lost attempts, end streams whose end was not announced, wake idle workers."""
        pause_s = self._jobs.lease_s / 3
        while True:
            await asyncio.sleep(pause_s)
            pause_s = self._jobs.lease_s / 3
            try:
                await self._drop_lost(tuple(self._attempts))
                await self._end_followed(self._tokens.list_followed())
                for queue in await self._jobs.ready_queues():  # the process that wrote a job may have died
                    self._events.set_topic(queue)
            except SQLAlchemyError as error:
                log.warning("leases could not be renewed: %s", type(error).__name__)
                pause_s = min(pause_s, RETRY_S)

    async def _publish_end(self, message_id: str, state: MessageState) -> None:
        message = await self.messages.get_message(message_id)
        if message is not None:
            await self._tokens.end_log(message_id, published_shapes.encode_end(message))
        await self._wake.notify_topic(_ANSWER + message_id)
        self._events.set_topic(CLOCK)  # another may have waited for its end

    async def _notify_ended(self, message_id: str) -> None:
        """Tell listeners in other processes that an answer ended here, unless they share its token log."""
        if not self._tokens.is_shared:
            await self._wake.notify_topic(_ANSWER + message_id)

    def _on_notification(self, topic: str) -> None:
        if topic == ALL_TOPICS:
            self._events.set_all()
            self._run_aside(self._check_answers(None))
        elif topic.startswith(_ANSWER):
            message_id = topic.removeprefix(_ANSWER)
            if self._attempt_of(message_id) is not None or message_id in self._tokens.list_followed():
                self._run_aside(self._check_answers(message_id))
        else:
            self._events.set_topic(topic)

    async def _check_answers(self, message_id: str | None) -> None:
        """Check the answers made and followed here after a change of one of them, or (None) of any."""
        attempts = self._attempts.values() if message_id is None else [self._attempt_of(message_id)]
        ids = [attempt.job.attempt_id for attempt in attempts if attempt is not None]
        try:
            await self._drop_lost(ids)
            awaited = self._tokens.list_followed()
            await self._end_followed(awaited if message_id is None else {message_id} & set(awaited))
        except SQLAlchemyError as error:
            log.warning("the database does not answer: %s", type(error).__name__)

    async def _drop_lost(self, attempts: Collection[str]) -> None:
        """Renew the leases of `attempts` and stop those that are lost, saving the text of cancelled ones."""
        own = {key: self._attempts[key] for key in attempts if key in self._attempts}
        if not own:
            return
        still = await self._jobs.renew_leases(own)
        lost = [attempt for attempt_id, attempt in own.items() if attempt_id not in still]
        words = {attempt.job.message_id: attempt.text for attempt in lost if attempt.text}
        for attempt in lost:
            attempt.mark_lost()
        if words:
            await self._jobs.save_partial_answers(words, MessageState.CANCELLED)

    async def _end_followed(self, awaited: Collection[str]) -> None:
        """End the logs followed here of answers that ended or were deleted: their process may have died."""
        if not awaited:
            return
        found = await self.messages.get_messages(awaited)
        await self._tokens.drop_logs(set(awaited) - {message.id for message in found})
        before = self._clock() - _ON_ITS_WAY_S if self._tokens.is_shared else math.inf
        for message in found:
            if message.state.is_final and (message.work_end_at or 0) <= before:
                self._publish_stored(message)

    def _publish_stored(self, message: Message) -> None:
        words = () if not message.content else (published_shapes.encode_token(message.content),)
        self._tokens.publish_stored(message.id, words, published_shapes.encode_end(message))

    def _run_aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    def _attempt_of(self, message_id: str) -> AnswerAttempt | None:
        attempts = self._attempts.values()
        return next((attempt for attempt in attempts if attempt.job.message_id == message_id), None)

    def _release_attempt(self, attempt: AnswerAttempt, waits_again: bool) -> None:
        self._attempts.pop(attempt.job.attempt_id, None)
        if attempt.lost.is_set() and attempt.text:
            self._saver.save_later(attempt.job.message_id, attempt.text)  # its end may not be written
        if waits_again:
            job = attempt.job
            log.warning("answer %s: attempt %d failed, queued again", job.message_id, job.attempts)
            self._run_aside(self._wake.notify_topic(attempt.job.queue))
        self._events.set_topic(CLOCK)  # its next attempt may be due, or another have waited for its end

    async def _give_back(self, claiming: asyncio.Future[AnswerAttempt | None]) -> None:
        """Undo a claim whose caller was cancelled: no worker saw the job, so this was no attempt."""
        try:
            attempt = await claiming
            if attempt is None:
                return
            attempt.mark_lost()
            await self._jobs.give_back_job(attempt.job.attempt_id)
            await self._wake.notify_topic(attempt.job.queue)
        except SQLAlchemyError as error:
            log.warning("a job could not be given back: %s", type(error).__name__)  # its lease runs out
