"""Answers under way in this process: their jobs, logs and leases, and the clock that ends what is overdue."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from radixway.chat import events
from radixway.chat.attempt import Attempt
from radixway.chat.background import beside
from radixway.chat.beat import Beat
from radixway.chat.ids import new_id
from radixway.chat.jobs import Jobs
from radixway.chat.messages import Messages, Question, WhileBusy
from radixway.chat.outages import AGAIN_S, Watch
from radixway.chat.records import Message, MessageState
from radixway.chat.safety.screen import Screen
from radixway.chat.tokens import Entry, TokenLog
from radixway.chat.wake import EVERYTHING, Bells, Wake, within

log = logging.getLogger(__name__)

CLOCK = "clock"
"""The topic of `Wake` for times that may have changed."""
_ANSWER = "answer:"
"""Begins the topic for an answer that was ended, or given to another: with its message's id."""
_BEAT_S = 0.015
"""What all answers say in that time is told at once."""
_ON_ITS_WAY_S = 5.0
"""What was said before the end of an answer may be on its way from another process for as long."""
_DOUBTS_S = 1.0
"""Between looks at what may be overdue, as long as it is not known which leases count."""
_ANOTHERS_S = 0.1
"""How long to leave alone what is due and is being seen to by another process."""
_ENDS = {
    MessageState.TIMEOUT: "Timeout",
    MessageState.CANCELLED: "Cancelled",
    MessageState.ABORTED_BY_WORKER: "Aborted due to worker error.",
}


@dataclass(slots=True)
class _Taking:
    """Of those who wait for jobs of the same queues."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    found_nothing: list[asyncio.Event] = field(default_factory=list)
    """The bells that had not rung when somebody looked last, and there was no job."""


class Answers:
    """Belongs to one event loop, and works while `running()`."""

    def __init__(
        self,
        messages: Messages,
        jobs: Jobs,
        tokens: TokenLog,
        wake: Wake,
        clock: Callable[[], float],
        *,
        keep_every_s: float = 1.0,
        screen: Screen | None = None,
    ) -> None:
        """`keep_every_s`: how often the words so far are noted in the database. `screen`: see `Attempt`."""
        self.messages = messages
        self._jobs = jobs
        self._tokens = tokens
        self._wake = wake
        self._clock = clock
        self._keep_every_s = keep_every_s
        self._screen = screen
        self._owner = new_id()
        self._bells = Bells()
        self._beat = Beat(_BEAT_S)
        self._held: dict[str, Attempt] = {}
        """By attempt's id."""
        self._unkept: dict[str, str] = {}
        """Words that are still to be noted, by message."""
        self._aside: set[asyncio.Task[None]] = set()
        """What is done beside all else, and waited for at the end."""
        self._taking: dict[frozenset[str], _Taking] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Leases are renewed and overdue jobs ended while this holds; at its end, attempts are given back."""
        async with self._tokens.running(), self._wake.running(self._told):
            try:
                async with beside(self._watch_clock, self._renew, self._keep):
                    yield
            finally:
                await asyncio.gather(*self._aside, return_exceptions=True)
                for attempt in tuple(self._held.values()):
                    try:
                        await attempt.give_back("the server is stopping")
                    except SQLAlchemyError as error:  # its lease runs out
                        log.warning("a job could not be given back: %s", type(error).__name__)
                await asyncio.gather(*self._aside, return_exceptions=True)

    async def request(
        self,
        user_id: str,
        chat_id: str,
        question: Question,
        *,
        while_busy: WhileBusy = "enqueue",
        spare_running: bool = False,
    ) -> Message:
        """See `Messages.request_answer`; whoever waits for such work is woken."""
        message, ended = await self.messages.request_answer(
            user_id, chat_id, question, while_busy=while_busy, spare_running=spare_running
        )
        await self.announce(question.queue, ended)
        return message

    async def announce(self, queue: str, ended: Collection[str] = ()) -> None:
        """There is a new job in a queue, for which the answers `ended` were ended."""
        for message_id in ended:
            await self._end_cancelled(message_id, None)
        await self._wake.tell(queue)
        await self._wake.tell(CLOCK)

    def bell(self, topic: str) -> asyncio.Event:
        """See `Bells.at`."""
        return self._bells.at(topic)

    async def tell(self, topic: str) -> None:
        """See `Wake.tell`."""
        await self._wake.tell(topic)

    async def take(
        self, queues: Collection[str], *, worker: dict[str, Any] | None = None, worker_id: str | None = None
    ) -> Attempt:
        """Wait for a job of these queues, and hold it. Whoever stops waiting (cancels this) costs no job.

        A ring wakes all who wait; they look one after the other, till one of them has found nothing.
        """
        taking = self._taking.setdefault(frozenset(queues), _Taking())
        while True:
            bells = [self._bells.at(queue) for queue in queues]
            async with taking.lock:
                attempt = None
                if taking.found_nothing != bells:
                    try:
                        attempt = await self._claim_or_give_back(queues, worker, worker_id)
                    except SQLAlchemyError as error:
                        log.warning("the database does not answer: %s", type(error).__name__)
                        await asyncio.sleep(AGAIN_S)
                        continue
                    taking.found_nothing = bells if attempt is None else []
            if attempt is not None:
                return attempt
            await _first(bells)

    async def _claim_or_give_back(
        self, queues: Collection[str], worker: dict[str, Any] | None, worker_id: str | None
    ) -> Attempt | None:
        claiming = asyncio.ensure_future(self._claim(queues, worker, worker_id))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            self._do_aside(self._give_back(claiming))
            raise

    async def _claim(
        self, queues: Collection[str], worker: dict[str, Any] | None, worker_id: str | None
    ) -> Attempt | None:
        """None: there is no job, or its message was deleted just now."""
        job = await self._jobs.claim(queues, self._owner, worker=worker, worker_id=worker_id)
        if job is None:
            return None
        thread = await self.messages.thread(job.message_id, job.chat_id)
        if not thread:
            self._bells.ring(job.queue)  # there may be others
            return None
        log.info(
            "answer %s: attempt %d dispatched to %s",
            job.message_id,
            job.attempts,
            "the gateway's own workers" if worker_id is None else f"worker {worker_id}",
        )
        attempt = Attempt(
            job,
            thread,
            self.messages,
            self._jobs,
            self._tokens,
            self._beat,
            self._let_go,
            self._tell_ended,
            self._screen,
        )
        self._held[job.attempt_id] = attempt  # who watches the clock looks at least once in a lease's time
        return attempt

    async def cancel(self, user_id: str, message_id: str) -> bool:
        """End an answer under way, at its user's wish; what it has said so far stays. Raises NotFound."""
        await self.messages.find(user_id, message_id)
        attempt = self._attempt_of(message_id)
        partial = attempt.text if attempt is not None and attempt.text else None
        if not await self._jobs.cancel(message_id, partial):
            return False
        await self._end_cancelled(message_id, partial)
        return True

    async def _end_cancelled(self, message_id: str, noted: str | None) -> None:
        """`noted`: its words, as they were when that was written; more may have been heard since."""
        attempt = self._attempt_of(message_id)
        if attempt is not None:
            attempt.lose()
            if attempt.text and attempt.text != noted:
                await self._jobs.keep({message_id: attempt.text}, MessageState.CANCELLED)
        await self._end(message_id, MessageState.CANCELLED)

    async def cancel_chat(self, user_id: str, chat_id: str) -> None:
        """End every answer under way in a chat. Raises NotFound."""
        for message in await self.messages.of_chat(user_id, chat_id):
            if not message.state.is_final:
                await self.cancel(user_id, message.id)

    async def forget(self, message_ids: Collection[str]) -> None:
        """These messages are gone: whoever works at them stops, and their logs go, too."""
        gone = frozenset(message_ids)
        for attempt in tuple(self._held.values()):
            if attempt.job.message_id in gone:
                attempt.lose()
        await self._tokens.forget(gone)
        for message_id in gone:
            await self._wake.tell(_ANSWER + message_id)

    async def is_heard(self, message_id: str) -> bool:
        """Whether there is a log of it, not only words that it left."""
        return await self._tokens.knows(message_id)

    async def listen(self, message: Message, after: int = 0) -> AsyncIterator[Entry] | None:
        """What an answer says, after a position; None where it has ended and been forgotten.

        Of one that ended lately, in a process that has no log of it, the words are told at once.
        """
        if message.state.is_final and not await self._tokens.knows(message.id):
            if message.work_end_at is None or self._clock() - message.work_end_at >= self._tokens.kept_s:
                return None
            self._tell_whole(message)
        return self._tokens.listen(message.id, after)

    async def _watch_clock(self) -> None:
        """Do what is due when it is due: sleeps till then, or till times change, or till it is to be looked
        whether the database answers: a process that died with a new lease may have told nobody, too."""
        missed = False
        watch = Watch(self._jobs.lease_s, self._clock())
        while True:
            bell = self._bells.at(CLOCK)
            try:
                if missed:
                    await self._tell_ready()
                    missed = False
                await within(bell, min(await self._do_due(watch), watch.every_s))
            except SQLAlchemyError as error:
                log.warning("the database does not answer: %s", type(error).__name__)
                missed = True
                await within(bell, AGAIN_S)

    async def _do_due(self, watch: Watch) -> float:
        """Returns in how many seconds there may be more to do."""
        due, any_blocked = await self._jobs.next_due()
        watch.answered(self._clock())
        released = await self._jobs.release() if any_blocked else ()
        for queue in released:
            await self._wake.tell(queue)
        if released:
            return 0.0  # their times count, too
        if due is None or due > self._clock():
            return self._jobs.lease_s if due is None else due - self._clock()
        await self._let_go_lost(tuple(self._held))  # what is held here is alive, however late it is
        doubts_s = watch.doubts_for(self._clock())
        if doubts_s:
            reaped = await self._jobs.reap(leases=False)
        else:
            reaped = await self._jobs.reap(await self._words_of_lapsed())
        for message_id, attempt in reaped.restarted:
            await self._tokens.restart(message_id, attempt)
        for ended in reaped.ended:
            await self._end(ended.message_id, ended.state)
        await self._tell_ready()
        return 0.0 if reaped else min(doubts_s, _DOUBTS_S) if doubts_s else _ANOTHERS_S

    async def _words_of_lapsed(self) -> dict[str, str]:
        """What those answers have said of which nobody will say more, where more is known than was noted."""
        words = {}
        for message_id, attempt, noted in await self._jobs.lapsed():
            said = await self._tokens.words(message_id, attempt)
            if len(said) > len(noted or ""):
                words[message_id] = said
        return words

    async def _tell_ready(self) -> None:
        for queue in await self._jobs.ready_queues():
            await self._wake.tell(queue)

    async def _renew(self) -> None:
        """Hold on to what is held; let go what was taken away; end what nobody is left to end, and begin what
        nobody was told of."""
        pause_s = self._jobs.lease_s / 3
        while True:
            await asyncio.sleep(pause_s)
            pause_s = self._jobs.lease_s / 3
            try:
                await self._let_go_lost(tuple(self._held))
                await self._end_heard(self._tokens.awaited())
                for queue in await self._jobs.ready_queues():  # who wrote a job may have died before it told
                    self._bells.ring(queue)
            except SQLAlchemyError as error:
                log.warning("leases could not be renewed: %s", type(error).__name__)
                pause_s = min(pause_s, AGAIN_S)

    async def _keep(self) -> None:
        """Note the words so far of answers that have grown."""
        while True:
            await asyncio.sleep(self._keep_every_s)
            grown = {held.job.message_id: held.text for held in self._held.values() if held.has_grown()}
            words, self._unkept = self._unkept | grown, {}
            if not words:
                continue
            try:
                await self._jobs.keep(words)
            except SQLAlchemyError as error:
                log.warning("answers so far could not be noted: %s", type(error).__name__)
                self._unkept = words | self._unkept

    async def _end(self, message_id: str, state: MessageState) -> None:
        """Tell listeners of an answer that ended without a worker's word."""
        message = await self.messages.get(message_id)
        if message is not None:
            await self._tokens.end(message_id, _last_word(message))
        await self._wake.tell(_ANSWER + message_id)
        self._bells.ring(CLOCK)  # another may have waited for its end

    async def _tell_ended(self, message_id: str) -> None:
        """Its last word was said here; who listens in another process may hear nothing else of it."""
        if not self._tokens.is_shared:
            await self._wake.tell(_ANSWER + message_id)

    def _told(self, topic: str) -> None:
        if topic == EVERYTHING:
            self._bells.ring_all()
            self._do_aside(self._look_after(None))
        elif topic.startswith(_ANSWER):
            message_id = topic.removeprefix(_ANSWER)
            if self._attempt_of(message_id) is not None or message_id in self._tokens.awaited():
                self._do_aside(self._look_after(message_id))
        else:
            self._bells.ring(topic)

    async def _look_after(self, message_id: str | None) -> None:
        """Something may have become of an answer, or of any, elsewhere: see to those held and heard here."""
        held = self._held.values() if message_id is None else [self._attempt_of(message_id)]
        ids = [attempt.job.attempt_id for attempt in held if attempt is not None]
        try:
            await self._let_go_lost(ids)
            awaited = self._tokens.awaited()
            await self._end_heard(awaited if message_id is None else {message_id} & set(awaited))
        except SQLAlchemyError as error:
            log.warning("the database does not answer: %s", type(error).__name__)

    async def _let_go_lost(self, attempts: Collection[str]) -> None:
        """Renew these, and let go what is not ours any more; the words of what was cancelled are kept."""
        held = {attempt_id: self._held[attempt_id] for attempt_id in attempts if attempt_id in self._held}
        if not held:
            return
        still = await self._jobs.renew(held)
        lost = [attempt for attempt_id, attempt in held.items() if attempt_id not in still]
        words = {attempt.job.message_id: attempt.text for attempt in lost if attempt.text}
        for attempt in lost:
            attempt.lose()
        if words:
            await self._jobs.keep(words, MessageState.CANCELLED)

    async def _end_heard(self, awaited: Collection[str]) -> None:
        """End what is heard here of answers that have ended, or are gone: whoever did it may be no more."""
        if not awaited:
            return
        found = await self.messages.among(awaited)
        await self._tokens.forget(set(awaited) - {message.id for message in found})
        before = self._clock() - _ON_ITS_WAY_S if self._tokens.is_shared else math.inf
        for message in found:
            if message.state.is_final and (message.work_end_at or 0) <= before:
                self._tell_whole(message)

    def _tell_whole(self, message: Message) -> None:
        words = () if not message.content else (events.token(message.content),)
        self._tokens.tell_whole(message.id, words, _last_word(message))

    def _do_aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    def _attempt_of(self, message_id: str) -> Attempt | None:
        return next((held for held in self._held.values() if held.job.message_id == message_id), None)

    def _let_go(self, attempt: Attempt, waits_again: bool) -> None:
        self._held.pop(attempt.job.attempt_id, None)
        if attempt.lost.is_set() and attempt.text:
            self._unkept[attempt.job.message_id] = attempt.text  # should nobody have ended it
        if waits_again:
            job = attempt.job
            log.warning("answer %s: attempt %d failed, it waits again", job.message_id, job.attempts)
            self._do_aside(self._wake.tell(attempt.job.queue))
        self._bells.ring(CLOCK)  # its next attempt may be due, or another have waited for its end

    async def _give_back(self, claiming: asyncio.Future[Attempt | None]) -> None:
        """Whoever claimed it does not want it any more: nobody was shown it, so that this was no attempt."""
        try:
            attempt = await claiming
            if attempt is None:
                return
            attempt.lose()
            await self._jobs.give_back(attempt.job.attempt_id)
            await self._wake.tell(attempt.job.queue)
        except SQLAlchemyError as error:
            log.warning("a job could not be given back: %s", type(error).__name__)  # its lease runs out


async def _first(bells: Collection[asyncio.Event]) -> None:
    waiting = [asyncio.ensure_future(bell.wait()) for bell in bells]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _last_word(message: Message) -> bytes:
    """What ends a stream of an answer that has ended."""
    if message.state is MessageState.COMPLETE:
        return events.whole(message)
    return events.error(message.error or _ENDS[message.state], message)
