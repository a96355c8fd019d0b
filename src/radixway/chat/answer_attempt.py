"""One attempt at one answer: where each token of a worker's stream goes to listeners and to the database.

LocalCompletions, PullWorker ──send_text──► AnswerAttempt ──append_events──► TokenLog ──► listeners
                                             │      │
               PartialAnswerSaver, every second     └─ mark_begun, finish_job
                                             ▼      ▼
                                          AnswerJobQueue ──► messages.content
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from radixway.chat import published_shapes
from radixway.chat.database_outages import is_outage, retry_through_outages
from radixway.chat.job_queue import AnswerJobQueue
from radixway.chat.messages import MessageStore
from radixway.chat.records import AnswerJob, Message, MessageState
from radixway.chat.safety.safety_screen import QuestionRefusedError, SafetyScreen
from radixway.chat.safety.shown_threads import build_worker_thread, drop_withheld, to_shown_thread
from radixway.chat.sanitizer import is_within_size, sanitize_finish_reason, sanitize_text, sanitize_usage
from radixway.chat.token_log import TokenLog

log = logging.getLogger(__name__)

_BATCH = 16
"""Tokens that are written at once, before the flush timer."""
_MAX_ATTEMPT_BYTES = 64 << 20
"""Memory of one attempt's events, with `_EACH` per event: half a million tokens."""
_EACH = 100
_MAX_PLUGIN_RECORD_BYTES = 1 << 20
TOO_LONG = "The answer exceeds the maximum length."
_RETRY_S = 0.25
"""Pause before the first tokens are stored again after an outage."""


class FlushTimer:
    """Makes all requested calls at once, since each wake-up costs. Belongs to one event loop."""

    def __init__(self, every_s: float) -> None:
        """`every_s`: the longest that a call waits, in seconds."""
        self._every_s = every_s
        self._calls: dict[Callable[[], None], None] = {}

    def call_at_next(self, call: Callable[[], None]) -> None:
        """Make `call` once at the next flush, however often it is requested until then."""
        if not self._calls:
            asyncio.get_running_loop().call_later(self._every_s, self._make_calls)
        self._calls[call] = None

    def _make_calls(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls:
            call()


class AnswerAttempt:
    """A lease of a job. It belongs to one event loop; calls after the lease was lost are ignored."""

    def __init__(
        self,
        job: AnswerJob,
        thread: Sequence[Message],
        messages: MessageStore,
        jobs: AnswerJobQueue,
        tokens: TokenLog,
        flush_timer: FlushTimer,
        on_release: Callable[[AnswerAttempt, bool], None],
        on_ended: Callable[[str], Awaitable[None]],
        screen: SafetyScreen | None = None,
    ) -> None:
        """`thread`: from the first message of the chat to the answer itself. `flush_timer`: when
        small batches are written. `on_release`: called once, at the end, with whether the job waits again.
        `on_ended`: called with the message whose text is complete. `screen`: judges questions."""
        self.job = job
        self.thread = drop_withheld(thread)
        self.lost = asyncio.Event()
        """Set when this lease is lost: the answer has ended, or another process has it."""
        self.text = ""
        self.prefix: str = (thread[-1].work_parameters or {}).get("prefix", "") if thread else ""
        """Text that the answer begins with, because it continues another."""
        self.safety_level = 0
        """Safety level in force; 0 also once the question was made safe, which happens once."""
        self._messages = messages
        self._jobs = jobs
        self._tokens = tokens
        self._flush_timer = flush_timer
        self._on_release = on_release
        self._screen = screen
        self._is_made_safe = False
        self._on_ended = on_ended
        self._has_begun = False
        self._is_over = False
        self._seen_characters = 0
        self._event_bytes = 0
        self._buffer: list[bytes] = []
        self._first_events: list[bytes] = []
        """Events sent with the first tokens: sent alone they would look like a restart."""
        self._retry_timer: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._flushes: set[asyncio.Task[None]] = set()

    @property
    def answer(self) -> Message:
        """The message that is being answered with, as it was when the attempt began."""
        return self.thread[-1]

    def build_worker_thread(self) -> list[Message]:
        """Return the messages that a worker is sent, the question last."""
        return build_worker_thread(self.thread[:-1])

    async def screen_question(self) -> bool:
        """Judge the question and make it safe before a worker gets the thread, which may change here.

        Returns False if it is not to be answered; its listeners have got the reason then.
        """
        if self._screen is None:
            return not self._is_over
        try:
            screened = await self._screen.screen_thread(self.thread)
        except QuestionRefusedError as refused:
            await self.fail_answer(str(refused), again=False)
            return False
        self.safety_level = screened.level if screened.verdict is None else 0
        if screened.verdict is not None:
            safe = screened.verdict.rewrite_prompt(self.thread[-2].content or "")
            await self.record_safe_prompt(safe, screened.level, screened.verdict.label, screened.verdict.rots)
        if screened.level > 0:
            self.thread = to_shown_thread(self.thread)
        return not self._is_over

    def take_growth(self) -> bool:
        """Return whether the text has grown since the last call."""
        grown = len(self.text) > self._seen_characters and not self._is_over
        self._seen_characters = len(self.text)
        return grown

    async def send_text(self, text: str) -> None:
        """Append `text` to the answer. Returns at once unless there is enough to publish."""
        text = sanitize_text(text)
        if self._is_over or not text:
            return
        if not self.text and self.prefix:
            text = self.prefix + text
        self.text += text
        await self._publish_event(published_shapes.encode_token(text))

    async def send_event(self, event: bytes) -> None:
        """Publish an `event` that is not part of the text."""
        if not self._is_over:
            await self._publish_event(event)

    async def send_plugin_step(self, thought: str, action: str, given: str, found: str) -> None:
        """Publish a plugin's step: `thought`, `action`, its input (`given`) and result (`found`)."""
        if not self._is_over:
            await self._publish_event(published_shapes.encode_plugin_step(thought, action, given, found))

    async def record_safe_prompt(self, prompt: str, level: int, label: str, rots: str) -> None:
        """Save and publish the `prompt` that the question was made safe as, once an attempt.

        It is not part of the answer: an attempt that dies after this is still retried.
        """
        if self._is_over or self._is_made_safe:
            return
        self._is_made_safe = True
        question = await self._messages.save_safe_prompt(
            self.job.attempt_id, self.thread[-2].id, prompt, level, label, rots
        )
        if question is None:
            return
        self.thread = (*self.thread[:-2], question, self.thread[-1])
        self._first_events.append(published_shapes.encode_safe_prompt(prompt, question))

    async def finish_answer(self, content: str | None = None, **fields: Any) -> bool:
        """Complete the answer with `content`, or with the text sent so far.

        `fields`: see `AnswerJobQueue.finish_job`. Returns False if the lease was lost. Waits out outages.
        """
        fields = _sanitize_fields(fields)
        self._buffer, self._first_events = self._first_events + self._buffer, []
        try:
            await self._flush(wait=True)
            message = None if self._is_over else await self._write_answer(self._full_text(content), fields)
        except SQLAlchemyError:
            self.mark_lost()  # its lease runs out
            raise
        if message is None:
            self.mark_lost()
            return False
        self._close_attempt(waits_again=False)
        await self._publish_end(message, published_shapes.encode_message(message))
        return True

    async def fail_answer(self, error: str, *, again: bool = True, after_s: float = 0.0) -> None:
        """Report a failed attempt. Before the first token it is retried after `after_s` seconds if `again`;
        later the answer ends with `error`.
        """
        error = sanitize_text(error)
        await self._flush()
        if self._is_over:
            return
        partial = self.text or None
        begun = self._has_begun
        try:
            state = await self._jobs.fail_job(
                self.job.attempt_id, error, partial=partial, again=again, after_s=after_s
            )
        except SQLAlchemyError:
            self.mark_lost()  # its lease runs out
            raise
        if state is None:
            self.mark_lost()
            return
        if begun and not state.is_final:  # before another attempt can begin
            await self._tokens.restart_attempt(self.job.message_id, self.job.attempts)
        self._close_attempt(waits_again=state is MessageState.PENDING)
        if state.is_final:
            message = await retry_through_outages(
                lambda: self._messages.get_message(self.job.message_id), asyncio.Event()
            )
            if message is not None:
                await self._publish_end(message, published_shapes.encode_error(error, message))

    async def give_back_job(self, error: str, *, noted: str | None = None) -> None:
        """Return the job to its queue. Without a token sent this is not counted as an attempt (`noted`: see
        `AnswerJobQueue.give_back_job`); otherwise it ends as `fail_answer` does with `error`.
        """
        if self.text or self._has_begun or self._is_over:
            await self.fail_answer(error)
            return
        try:
            ours = await self._jobs.give_back_job(self.job.attempt_id, noted)
        except SQLAlchemyError:
            self.mark_lost()  # its lease runs out
            raise
        if ours:
            self._close_attempt(waits_again=True)
        else:
            self.mark_lost()

    def mark_lost(self) -> None:
        """Stop: another process has the lease, or the answer has ended."""
        self.lost.set()
        if not self._is_over:
            self._close_attempt(waits_again=False, ours=False)

    async def _publish_event(self, event: bytes) -> None:
        self._event_bytes += len(event) + _EACH
        if self._event_bytes > _MAX_ATTEMPT_BYTES:
            await self.fail_answer(TOO_LONG, again=False)
            self.lost.set()
            return
        self._buffer.append(event)
        if not self._has_begun:
            if self._retry_timer is None:
                await self._flush()
        elif len(self._buffer) >= _BATCH:
            self._append_pending()
        else:
            self._flush_timer.call_at_next(self._append_pending)

    def _schedule_flush(self) -> None:
        self._retry_timer = None
        task = asyncio.ensure_future(self._flush())
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _write_answer(self, content: str, fields: dict[str, Any]) -> Message | None:
        """Store the text; None if it is too late. A lost commit is found by the next try."""
        tries = 0

        async def finish() -> Message | None:
            nonlocal tries
            tries += 1
            return await self._jobs.finish_job(self.job.attempt_id, content, **fields)

        message = await retry_through_outages(finish, self.lost)
        if message is not None or tries == 1:
            return message
        found = await self._messages.get_message(self.job.message_id)
        written = found is not None and (found.state, found.content) == (MessageState.COMPLETE, content)
        return found if written else None

    async def _flush(self, *, wait: bool = False) -> None:
        """Flush; `wait` out an outage of the database, otherwise the first tokens follow later."""
        async with self._writing:
            if self._is_over or not self._buffer:
                return
            if not self._has_begun and not await self._mark_begun(wait=wait):
                return
            self._append_pending()

    def _append_pending(self) -> None:
        if self._buffer and not self._is_over:
            batch, self._first_events, self._buffer = self._first_events + self._buffer, [], []
            self._tokens.append_events(self.job.message_id, self.job.attempts, batch)

    async def _mark_begun(self, *, wait: bool) -> bool:
        try:
            if wait:
                begun = await retry_through_outages(
                    lambda: self._jobs.mark_begun(self.job.attempt_id), self.lost
                )
            else:
                begun = await self._jobs.mark_begun(self.job.attempt_id)
        except SQLAlchemyError as error:
            if wait or not is_outage(error):
                raise
            if self._retry_timer is None:
                self._retry_timer = asyncio.get_running_loop().call_later(_RETRY_S, self._schedule_flush)
            return False
        if begun:
            self._has_begun = True
        else:
            self.mark_lost()
        return begun

    def _full_text(self, content: str | None) -> str:
        return (self.text or self.prefix) if content is None else self.prefix + sanitize_text(content)

    def _close_attempt(self, *, waits_again: bool, ours: bool = True) -> None:
        self._is_over = True
        if waits_again or not ours:
            self._tokens.leave_log(self.job.message_id)
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        self._on_release(self, waits_again)

    async def _publish_end(self, message: Message, event: bytes) -> None:
        await self._tokens.end_log(message.id, event, self.job.attempts)
        await self._on_ended(message.id)


class PartialAnswerSaver:
    """Saves the text so far of growing answers, so that a crash loses at most `every_s` seconds of it."""

    def __init__(
        self, jobs: AnswerJobQueue, attempts: Mapping[str, AnswerAttempt], *, every_s: float
    ) -> None:
        """`attempts`: those of this process, by id, as they are at each save."""
        self._jobs = jobs
        self._attempts = attempts
        self._every_s = every_s
        self._unsaved: dict[str, str] = {}

    def save_later(self, message_id: str, text: str) -> None:
        """Save `text` with the others next time, though its attempt is over."""
        self._unsaved[message_id] = text

    async def save_loop(self) -> None:
        """Save until cancelled; texts that could not be saved are tried again."""
        while True:
            await asyncio.sleep(self._every_s)
            growing = [attempt for attempt in self._attempts.values() if attempt.take_growth()]
            grown = {attempt.job.message_id: attempt.text for attempt in growing}
            texts, self._unsaved = self._unsaved | grown, {}
            if not texts:
                continue
            try:
                await self._jobs.save_partial_answers(texts)
            except SQLAlchemyError as error:
                log.warning("partial answers could not be saved: %s", type(error).__name__)
                self._unsaved = texts | self._unsaved


def _sanitize_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Clean the fields beside the text, so that an invalid one does not fail the answer."""
    cleaned = dict(fields)
    if "usage" in cleaned:
        cleaned["usage"] = sanitize_usage(cleaned["usage"])
    if "finish_reason" in cleaned:
        cleaned["finish_reason"] = sanitize_finish_reason(cleaned["finish_reason"])
    if cleaned.get("used_plugin") is not None and not is_within_size(
        cleaned["used_plugin"], _MAX_PLUGIN_RECORD_BYTES
    ):
        cleaned["used_plugin"] = None
    return cleaned
