"""Runs jobs that no pull worker fetches: claims them here and has them answered by a callable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.answer_attempt import AnswerAttempt

log = logging.getLogger(__name__)


class CompletionRefusedError(Exception):
    """The workers did not answer; another attempt may help, or not."""

    def __init__(self, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.again = again


AnswerCall = Callable[[AnswerAttempt], Awaitable[dict[str, Any]]]
"""Passes the words of an answer on as they come; returns what is to be noted of them, for `Attempt.finish`.

Raises CompletionRefusedError.
"""


class LocalWorkers:
    """Takes jobs of the queues that it is given, and answers them. Belongs to one event loop."""

    def __init__(self, answers: ActiveAnswers, say: AnswerCall, *, at_once: int) -> None:
        self._answers = answers
        self._say = say
        self._room = asyncio.Semaphore(at_once)
        self._queues: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    def set_queues(self, queues: Iterable[str]) -> None:
        """Claim jobs of `queues`, and no others, from now on."""
        wanted = frozenset(queues)
        if wanted != self._queues:
            self._queues = wanted
            self._changed.set()

    async def answer_jobs(self) -> None:
        """Claim and answer jobs until cancelled; those in flight then are given back."""
        try:
            while True:
                await self._room.acquire()
                try:
                    attempt = await self._claim_next()
                except BaseException:
                    self._room.release()
                    raise
                task = asyncio.create_task(self._answer_attempt(attempt))
                self._running.add(task)
                task.add_done_callback(self._on_done)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._room.release()

    async def _claim_next(self) -> AnswerAttempt:
        while True:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            taking = asyncio.ensure_future(self._answers.claim_job(self._queues)) if self._queues else None
            waiting: Collection[asyncio.Future[Any]] = [changed] if taking is None else [changed, taking]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if taking is not None and taking.done():
                    return taking.result()
            finally:
                changed.cancel()
                if taking is not None:
                    taking.cancel()

    async def _answer_attempt(self, attempt: AnswerAttempt) -> None:
        saying = asyncio.ensure_future(self._screen_and_answer(attempt))
        losing = asyncio.ensure_future(attempt.lost.wait())
        try:
            await asyncio.wait([saying, losing], return_when=asyncio.FIRST_COMPLETED)
            if not saying.done():
                return  # nobody wants it any more
            await attempt.finish_answer(**saying.result())
        except asyncio.CancelledError:
            await attempt.give_back_job("the server is stopping")
            raise
        except CompletionRefusedError as error:
            await attempt.fail_answer(str(error), again=error.again)
        except Exception as error:  # whatever it is, it is this answer's alone
            log.exception("an answer met a defect of ours")
            await attempt.fail_answer(f"internal error ({type(error).__name__})", again=False)
        finally:
            losing.cancel()
            saying.cancel()
            await asyncio.gather(saying, return_exceptions=True)

    async def _screen_and_answer(self, attempt: AnswerAttempt) -> dict[str, Any]:
        return await self._say(attempt) if await attempt.screen_question() else {}
