"""One attempt at one answer, in the hands of whoever does the work: a worker's connection, or the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from radixway.chat import events
from radixway.chat.beat import Beat
from radixway.chat.jobs import Jobs
from radixway.chat.messages import Messages
from radixway.chat.outages import is_away, through_outages
from radixway.chat.records import Job, Message, MessageState
from radixway.chat.safety.screen import Refused, Screen
from radixway.chat.safety.threads import as_shown, build_worker_thread, without_withheld
from radixway.chat.storable import counts, is_modest, reason, storable
from radixway.chat.tokens import TokenLog

_BATCH = 16
"""Tokens that are written at once, without waiting for the next beat."""
_MOST = 64 << 20
"""Bytes that what one attempt says may take in memory, with `_EACH` for an event: half a million tokens."""
_EACH = 100
_MOST_PLUGIN = 1 << 20
"""Bytes of what is kept of a plugin's use."""
TOO_LONG = "The answer is longer than any may be."
_AGAIN_S = 0.25
"""Till first words are tried again that a database which was away could not be told of."""


class Attempt:
    """Belongs to one event loop. Everything that is said after it was lost is dropped quietly."""

    def __init__(
        self,
        job: Job,
        thread: Sequence[Message],
        messages: Messages,
        jobs: Jobs,
        tokens: TokenLog,
        beat: Beat,
        let_go: Callable[[Attempt, bool], None],
        ended: Callable[[str], Awaitable[None]],
        screen: Screen | None = None,
    ) -> None:
        """`thread`: from the first message of the chat to the answer itself. `beat`: when words are written
        that are few. `let_go`: told once, when it is over, with whether the job waits again. `ended`: told of
        the message whose last word was said. `screen`: has questions judged."""
        self.job = job
        self.thread = without_withheld(thread)
        self.lost = asyncio.Event()
        """Set when the answer is not wanted from here any more: it has ended, or somebody else has it."""
        self.text = ""
        """What it has said so far."""
        self.prefix: str = (thread[-1].work_parameters or {}).get("prefix", "") if thread else ""
        """Words that the answer begins with, because it continues another."""
        self.safety_level = 0
        """That is in force; 0 also once the question was made safe: it is not to be made so twice."""
        self._messages = messages
        self._jobs = jobs
        self._tokens = tokens
        self._beat = beat
        self._let_go = let_go
        self._screen = screen
        self._is_made_safe = False
        self._ended = ended
        self._begun = False
        self._over = False
        self._kept = 0
        self._said_bytes = 0
        self._buffer: list[bytes] = []
        self._opening: list[bytes] = []
        """What is told with the first words: listeners who heard it alone would be told of a restart."""
        self._again: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._flushes: set[asyncio.Task[None]] = set()

    @property
    def answer(self) -> Message:
        """The message that is being answered with, as it was when the attempt began."""
        return self.thread[-1]

    def build_worker_thread(self) -> list[Message]:
        """Return the messages that a worker is sent, the question last."""
        return build_worker_thread(self.thread[:-1])

    async def clear(self) -> bool:
        """Have the question judged, and made safe, before anybody is shown the thread, which may change here.

        False: it is not to be answered any more, or not at all, and its listeners know.
        """
        if self._screen is None:
            return not self._over
        try:
            screened = await self._screen.look_at(self.thread)
        except Refused as refused:
            await self.fail(str(refused), again=False)
            return False
        self.safety_level = screened.level if screened.verdict is None else 0
        if screened.verdict is not None:
            safe = screened.verdict.make_safe(self.thread[-2].content or "")
            await self.made_safe(safe, screened.level, screened.verdict.label, screened.verdict.rots)
        if screened.level > 0:
            self.thread = as_shown(self.thread)
        return not self._over

    def has_grown(self) -> bool:
        """Whether it has said more since this was asked last."""
        grown = len(self.text) > self._kept and not self._over
        self._kept = len(self.text)
        return grown

    async def token(self, text: str) -> None:
        """Some words. Returns at once unless there are enough of them to be written."""
        text = storable(text)
        if self._over or not text:
            return
        if not self.text and self.prefix:
            text = self.prefix + text
        self.text += text
        await self._say(events.token(text))

    async def tell(self, event: bytes) -> None:
        """Something that is no words, for whoever listens."""
        if not self._over:
            await self._say(event)

    async def plugin(self, thought: str, action: str, given: str, found: str) -> None:
        """A step of a plugin."""
        if not self._over:
            await self._say(events.plugin(thought, action, given, found))

    async def made_safe(self, prompt: str, level: int, label: str, rots: str) -> None:
        """The question was made safe, here or by the worker: noted with the message that was asked with, and
        told, once an attempt. They are no words: an attempt that dies after this is made again.
        """
        if self._over or self._is_made_safe:
            return
        self._is_made_safe = True
        asked = await self._messages.note_safety(
            self.job.attempt_id, self.thread[-2].id, prompt, level, label, rots
        )
        if asked is None:
            return
        self.thread = (*self.thread[:-2], asked, self.thread[-1])
        self._opening.append(events.safe_prompt(prompt, asked))

    async def finish(self, content: str | None = None, **fields: Any) -> bool:
        """The answer is whole: `content`, or what was said. `fields`: see `Jobs.finish`. False: too late."""
        fields = _kept(fields)
        self._buffer, self._opening = self._opening + self._buffer, []
        try:
            await self._flush(wait=True)
            message = None if self._over else await self._write_whole(self._whole(content), fields)
        except SQLAlchemyError:
            self.lose()  # its lease runs out
            raise
        if message is None:
            self.lose()
            return False
        self._close(waits_again=False)
        await self._tell_end(message, events.whole(message))
        return True

    async def fail(self, error: str, *, again: bool = True, after_s: float = 0.0) -> None:
        """It did not work. Before its first words it is tried again; after them the answer ends here."""
        error = storable(error)
        await self._flush()
        if self._over:
            return
        partial = self.text or None
        begun = self._begun
        try:
            state = await self._jobs.fail(
                self.job.attempt_id, error, partial=partial, again=again, after_s=after_s
            )
        except SQLAlchemyError:
            self.lose()  # its lease runs out
            raise
        if state is None:
            self.lose()
            return
        if begun and not state.is_final:  # before anybody else can begin
            await self._tokens.restart(self.job.message_id, self.job.attempts)
        self._close(waits_again=state is MessageState.PENDING)
        if state.is_final:
            message = await through_outages(lambda: self._messages.get(self.job.message_id), asyncio.Event())
            if message is not None:
                await self._tell_end(message, events.error(error, message))

    async def give_back(self, error: str, *, noted: str | None = None) -> None:
        """Let it go. What has said nothing was no attempt (`noted`: see `Jobs.give_back`); anything else ends
        as `fail` says."""
        if self.text or self._begun or self._over:
            await self.fail(error)
            return
        try:
            ours = await self._jobs.give_back(self.job.attempt_id, noted)
        except SQLAlchemyError:
            self.lose()  # its lease runs out
            raise
        if ours:
            self._close(waits_again=True)
        else:
            self.lose()

    def lose(self) -> None:
        """It is not ours any more."""
        self.lost.set()
        if not self._over:
            self._close(waits_again=False, ours=False)

    async def _say(self, event: bytes) -> None:
        """What never ends is ended."""
        self._said_bytes += len(event) + _EACH
        if self._said_bytes > _MOST:
            await self.fail(TOO_LONG, again=False)
            self.lost.set()
            return
        self._buffer.append(event)
        if not self._begun:
            if self._again is None:
                await self._flush()
        elif len(self._buffer) >= _BATCH:
            self._write()
        else:
            self._beat.at_next(self._write)

    def _flush_again(self) -> None:
        self._again = None
        task = asyncio.ensure_future(self._flush())
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _write_whole(self, content: str, fields: dict[str, Any]) -> Message | None:
        """None: too late. Where an end was written as the connection broke, the next try finds it."""
        tries = 0

        async def finish() -> Message | None:
            nonlocal tries
            tries += 1
            return await self._jobs.finish(self.job.attempt_id, content, **fields)

        message = await through_outages(finish, self.lost)
        if message is not None or tries == 1:
            return message
        found = await self._messages.get(self.job.message_id)
        written = found is not None and (found.state, found.content) == (MessageState.COMPLETE, content)
        return found if written else None

    async def _flush(self, *, wait: bool = False) -> None:
        """`wait`: for a database that is away; otherwise first words are said when it is back."""
        async with self._writing:
            if self._over or not self._buffer:
                return
            if not self._begun and not await self._begin(wait=wait):
                return
            self._write()

    def _write(self) -> None:
        """What is there, once it has begun."""
        if self._buffer and not self._over:
            batch, self._opening, self._buffer = self._opening + self._buffer, [], []
            self._tokens.append(self.job.message_id, self.job.attempts, batch)

    async def _begin(self, *, wait: bool) -> bool:
        """Whether the first words may be said now."""
        try:
            if wait:
                begun = await through_outages(lambda: self._jobs.begin(self.job.attempt_id), self.lost)
            else:
                begun = await self._jobs.begin(self.job.attempt_id)
        except SQLAlchemyError as error:
            if wait or not is_away(error):
                raise
            if self._again is None:
                self._again = asyncio.get_running_loop().call_later(_AGAIN_S, self._flush_again)
            return False
        if begun:
            self._begun = True
        else:
            self.lose()
        return begun

    def _whole(self, content: str | None) -> str:
        return (self.text or self.prefix) if content is None else self.prefix + storable(content)

    def _close(self, *, waits_again: bool, ours: bool = True) -> None:
        self._over = True
        if waits_again or not ours:
            self._tokens.leave(self.job.message_id)
        if self._again is not None:
            self._again.cancel()
        self._let_go(self, waits_again)

    async def _tell_end(self, message: Message, event: bytes) -> None:
        await self._tokens.end(message.id, event, self.job.attempts)
        await self._ended(message.id)


def _kept(fields: dict[str, Any]) -> dict[str, Any]:
    """What a worker says beside its words: an answer is not lost for what is odd about it."""
    kept = dict(fields)
    if "usage" in kept:
        kept["usage"] = counts(kept["usage"])
    if "finish_reason" in kept:
        kept["finish_reason"] = reason(kept["finish_reason"])
    if kept.get("used_plugin") is not None and not is_modest(kept["used_plugin"], _MOST_PLUGIN):
        kept["used_plugin"] = None
    return kept
