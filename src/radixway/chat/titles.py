"""Titles of chats, made by a model after a chat's first complete answer.

The job is written in the transaction that ends the answer. It passes the gateway's pipeline like an answer,
behind all answers: one at a time, at the least priority, and not while any answer waits for a worker. A title
that a user gave is never overwritten.
"""

import asyncio
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, delete, func, literal, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.completion_hooks import EndedAnswer
from radixway.chat.database import ChatDatabase, insert_into
from radixway.chat.ids import new_id
from radixway.chat.job_queue import AnswerJobQueue
from radixway.chat.local_completions import PipelineCall, make_completion_request, read_whole_body
from radixway.chat.messages import MessageStore
from radixway.chat.notifications import wait_for_event
from radixway.chat.records import Message, MessageState, Role
from radixway.chat.schema import chats, title_jobs
from radixway.chat.webhooks import WebhookEvent, WebhookOutbox
from radixway.core.pipeline import GatewayError

log = logging.getLogger(__name__)

_LEASE_S = 120.0


@dataclass(frozen=True, slots=True)
class TitleJob:
    """A chat that needs a title."""

    chat_id: str
    message_id: str
    attempts: int
    attempt_id: str
    user_id: str


_OWN = ("chat_id", "message_id", "attempts", "attempt_id")


class TitleJobs:
    """The jobs of all processes that share the database."""

    def __init__(self, database: ChatDatabase, clock: Callable[[], float], outbox: WebhookOutbox) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._clock = clock
        self._outbox = outbox
        self.on_news: Callable[[], None] = lambda: None
        """Called after a transaction that wrote a job."""

    async def answer_ended(self, write: AsyncConnection, answer: EndedAnswer) -> None:
        """Write a job if `answer` completes in a chat without a title: a completion hook."""
        if answer.state is not MessageState.COMPLETE:
            return
        nameless = select(chats.c.id, literal(answer.id), literal(self._clock())).where(
            chats.c.id == answer.chat_id, chats.c.titled_by.is_(None)
        )
        wanted = insert_into(write, title_jobs).from_select(
            ["chat_id", "message_id", "available_at"], nameless
        )
        made = await write.execute(wanted.on_conflict_do_nothing().returning(title_jobs.c.chat_id))
        if made.first() is not None:
            self._database.call_after_commit(write, self.on_news)

    async def claim_title(self) -> TitleJob | None:
        """Lease the job that has waited longest; it is due again when the lease ends."""
        now = self._clock()
        first = (
            select(title_jobs.c.chat_id)
            .where(title_jobs.c.available_at <= now)
            .order_by(title_jobs.c.available_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        owner = select(chats.c.user_id).where(chats.c.id == title_jobs.c.chat_id).scalar_subquery()
        take = (
            update(title_jobs)
            .where(title_jobs.c.chat_id == first.scalar_subquery(), title_jobs.c.available_at <= now)
            .values(attempts=title_jobs.c.attempts + 1, attempt_id=new_id(), available_at=now + _LEASE_S)
            .returning(*(title_jobs.c[name] for name in _OWN), owner.label("user_id"))
        )
        async with self._database.write_transaction() as write:
            row = (await write.execute(take)).first()
            return None if row is None else TitleJob(**row._mapping)

    async def save_title(self, job: TitleJob, title: str | None) -> bool:
        """Save `title`, unless the chat was named meanwhile. None: it keeps its first words.

        Returns whether it was named.
        """
        values = {"titled_by": "first_words"} if title is None else {"title": title, "titled_by": "model"}
        still = select(title_jobs.c.chat_id).where(*_is_current(job)).exists()
        async with self._database.write_transaction() as write:
            named = (
                update(chats)
                .where(chats.c.id == job.chat_id, chats.c.titled_by.is_(None), still)
                .values(**values)
                .returning(chats.c.user_id)
            )
            user_id: str | None = (await write.execute(named)).scalar_one_or_none()
            await write.execute(delete(title_jobs).where(*_is_current(job)))
            if user_id is None or title is None:
                return False
            await self._outbox.put(write, user_id, WebhookEvent("chat.titled", job.chat_id))
            return True

    async def requeue_title(self, job: TitleJob, after_s: float, *, counts: bool = True) -> None:
        """Make `job` due again in `after_s` seconds. `counts`: as an attempt."""
        values: dict[str, Any] = {"available_at": self._clock() + after_s}
        if not counts:
            values["attempts"] = job.attempts - 1
        await self._database.execute(update(title_jobs).where(*_is_current(job)).values(**values))

    async def next_due(self) -> float | None:
        """Return when the first job is due; None: there is none."""
        due: list[float | None]
        due = await self._database.fetch_scalars(select(func.min(title_jobs.c.available_at)))
        return due[0]


def _is_current(job: TitleJob) -> tuple[ColumnElement[bool], ...]:
    return title_jobs.c.chat_id == job.chat_id, title_jobs.c.attempt_id == job.attempt_id


MAX_TITLE_CHARACTERS = 80
_TITLE_PADDING = " \t#*_`\"'“”„‘’«»「」《》"


def clean_title(output: str, chat: str) -> str | None:
    """Return a model's `output` as a title; None: it has none, or not in a script of the `chat`."""
    output = re.sub(r"<think>.*?(</think>|\Z)", " ", output, flags=re.DOTALL)
    lines = ("".join(_drop_control_characters(line)).strip(_TITLE_PADDING) for line in output.splitlines())
    line = next((line for line in lines if line), "")
    line = re.sub(r"^(title|titel|titre|título|标题|題名)\s*[:：]\s*", "", line, flags=re.IGNORECASE)
    line = " ".join(line.strip(_TITLE_PADDING).split())
    if len(line) > MAX_TITLE_CHARACTERS:
        line = line[: MAX_TITLE_CHARACTERS - 1].rsplit(" ", 1)[0].rstrip(" ,.;:") + "…"
    scripts = _count_scripts(line)
    if not scripts:
        return None
    usual, _ = scripts.most_common(1)[0]
    known = _count_scripts(chat)
    return line if known[usual] * 10 >= known.total() else None


def _drop_control_characters(line: str) -> Iterable[str]:
    return (
        " " if character.isspace() else character
        for character in line
        if character.isspace() or unicodedata.category(character)[0] != "C"
    )


def _count_scripts(text: str) -> Counter[str]:
    """Count letters by the first word of their names: LATIN, CYRILLIC, CJK …"""
    return Counter(unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha())


_MAX_CONTEXT_CHARACTERS = 1000
_PROMPT = (
    "Write a title of at most six words for the conversation below, in the language of the conversation."
    " Answer with the title and nothing else."
)
_ATTEMPTS, _AGAIN_S = 3, 30.0
_BUSY_RETRY_S = 2.0
"""Pause of titles while answers wait."""
_POLL_INTERVAL_S = 30.0
_MAX_TITLE_TOKENS = 64


class NoTitleError(Exception):
    """The worker gave no title."""


class ChatTitler:
    """Makes titles while `run()`. Belongs to one event loop; any number of processes may have one."""

    def __init__(
        self,
        titles: TitleJobs,
        messages: MessageStore,
        jobs: AnswerJobQueue,
        pipeline: PipelineCall,
        served: Callable[[], Iterable[str]],
        clock: Callable[[], float],
        *,
        model: str | None = None,
        priority: int = -1,
    ) -> None:
        """`model`: that makes them; None: the one that gave the answer. `priority`: the least there is, as
        the gateway's queue understands it. `served`: models that `pipeline` has workers for."""
        self._titles = titles
        self._messages = messages
        self._jobs = jobs
        self._pipeline = pipeline
        self._served = served
        self._clock = clock
        self._model = model
        self._priority = priority
        self._news = asyncio.Event()
        titles.on_news = self._news.set

    async def make_titles(self) -> None:
        """Make titles until cancelled; the one in progress then is due again when its lease ends."""
        while True:
            self._news.clear()
            try:
                job = await self._titles.claim_title()
                if job is not None:
                    await self._make_title(job)
                    continue
                due = await self._titles.next_due()
                left = _POLL_INTERVAL_S if due is None else due - self._clock()
                await wait_for_event(self._news, min(max(left, 0.0), _POLL_INTERVAL_S))
            except SQLAlchemyError as error:
                log.warning("titles: the database does not answer: %s", type(error).__name__)
                await asyncio.sleep(1.0)

    async def _make_title(self, job: TitleJob) -> None:
        if await self._jobs.ready_queues():
            await self._titles.requeue_title(job, _BUSY_RETRY_S, counts=False)
            return
        thread = await self._messages.load_thread(job.message_id)
        model = self._model or (thread[-1].model if thread else None)
        if model is None or model not in self._served():
            await self._titles.save_title(job, None)
            return
        try:
            output = await self._ask_model(job, model, thread)
        except (GatewayError, NoTitleError) as error:
            log.info("no title: %s", type(error).__name__)
            if job.attempts < _ATTEMPTS:
                await self._titles.requeue_title(job, _AGAIN_S * job.attempts)
            else:
                await self._titles.save_title(job, None)
            return
        await self._titles.save_title(job, clean_title(output, " ".join(_title_context(thread))))

    async def _ask_model(self, job: TitleJob, model: str, thread: list[Message]) -> str:
        """Return the model's title. Raises GatewayError, NoTitleError."""
        question, answered = _title_context(thread)
        content = f"{_PROMPT}\n\nUser: {question}\n\nAssistant: {answered}"
        body = {
            "model": model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": _MAX_TITLE_TOKENS,
            "temperature": 0,
        }
        request = make_completion_request(
            job.attempt_id, job.user_id, body, priority=self._priority, title_of=job.chat_id
        )
        try:
            reply = await self._pipeline(request)
            body_bytes = await read_whole_body(reply)
        finally:
            for chunks in request.open_streams:
                await chunks.aclose()
        if reply.status != 200:
            raise NoTitleError(f"answered {reply.status}")
        try:
            return str(msgspec.json.decode(body_bytes)["choices"][0]["message"]["content"] or "")
        except (msgspec.DecodeError, KeyError, IndexError, TypeError) as error:
            raise NoTitleError("the answer cannot be read") from error


def _title_context(thread: list[Message]) -> tuple[str, str]:
    first = next((message.content for message in thread if message.role is Role.PROMPTER), None) or ""
    return first[:_MAX_CONTEXT_CHARACTERS], (thread[-1].content or "")[:_MAX_CONTEXT_CHARACTERS]
