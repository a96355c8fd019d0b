"""Answers from the gateway's own workers: jobs that no pull worker fetches, as chat completions."""

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.answer_attempt import AnswerAttempt
from radixway.chat.asking_key import asking_key
from radixway.chat.model_configs import build_system_prompt
from radixway.chat.plugins import PluginAnswers, StreamChat, find_chosen_plugin
from radixway.chat.records import Message, Role
from radixway.chat.safety import BLOCKED
from radixway.core.http.server_sent_events import iterate_data
from radixway.core.pipeline import CHAT_COMPLETIONS, Caller, ForbiddenError, GatewayError, Reply, Request
from radixway.core.telemetry import Journal

log = logging.getLogger(__name__)


class CompletionRefusedError(Exception):
    """The workers did not answer; another attempt may help, or not."""

    def __init__(self, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.again = again


AnswerCall = Callable[[AnswerAttempt], Awaitable[dict[str, Any]]]
"""Sends the text of an answer as it comes; returns what `AnswerAttempt.finish_answer` stores.

Raises CompletionRefusedError.
"""


class LocalWorkers:
    """Claims and answers jobs of the given queues. Belongs to one event loop."""

    def __init__(self, answers: ActiveAnswers, answer: AnswerCall, *, at_once: int) -> None:
        self._answers = answers
        self._answer = answer
        self._capacity = asyncio.Semaphore(at_once)
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
                await self._capacity.acquire()
                try:
                    attempt = await self._claim_next()
                except BaseException:
                    self._capacity.release()
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
        self._capacity.release()

    async def _claim_next(self) -> AnswerAttempt:
        while True:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            claiming = asyncio.ensure_future(self._answers.claim_job(self._queues)) if self._queues else None
            waiting: Collection[asyncio.Future[Any]] = [changed] if claiming is None else [changed, claiming]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if claiming is not None and claiming.done():
                    return claiming.result()
            finally:
                changed.cancel()
                if claiming is not None:
                    claiming.cancel()

    async def _answer_attempt(self, attempt: AnswerAttempt) -> None:
        asking_key.set(attempt.job.key_id)  # of this task alone
        answering = asyncio.ensure_future(self._screen_and_answer(attempt))
        lost = asyncio.ensure_future(attempt.lost.wait())
        try:
            await asyncio.wait([answering, lost], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                return  # the answer has ended elsewhere
            await attempt.finish_answer(**answering.result())
        except asyncio.CancelledError:
            await attempt.give_back_job("the server is stopping")
            raise
        except CompletionRefusedError as error:
            await attempt.fail_answer(str(error), again=error.again)
        except Exception as error:  # any error concerns this answer alone
            log.exception("an answer failed unexpectedly")
            await attempt.fail_answer(f"internal error ({type(error).__name__})", again=False)
        finally:
            lost.cancel()
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    async def _screen_and_answer(self, attempt: AnswerAttempt) -> dict[str, Any]:
        return await self._answer(attempt) if await attempt.screen_question() else {}


PipelineCall = Callable[[Request], Awaitable[Reply]]

_decode = msgspec.json.Decoder().decode
_UNREADABLE = (msgspec.DecodeError, LookupError, TypeError, AttributeError, RecursionError, UnicodeError)
"""Raised by reading an answer of an unknown shape."""
_SAMPLING = ("temperature", "top_p", "top_k", "typical_p", "repetition_penalty")


class LocalCompletions:
    """Has attempts answered by the gateway's workers."""

    def __init__(self, pipeline: PipelineCall, tools: PluginAnswers) -> None:
        """`pipeline`: takes chat completions. `tools`: answers those that chose a plugin."""
        self._pipeline = pipeline
        self._tools = tools

    async def answer_attempt(self, attempt: AnswerAttempt) -> dict[str, Any]:
        """Stream the answer; returns usage and finish reason. Raises CompletionRefusedError."""
        body = _make_body(attempt)
        try:
            parameters = attempt.answer.work_parameters or {}
            if find_chosen_plugin(parameters) is not None:
                return await self._tools.answer_with_plugin(
                    attempt,
                    attempt.answer.model or "",
                    parameters,
                    body["messages"],
                    self._make_ask(attempt, body),
                )
            usage, reason = None, None
            async with aclosing(stream_completion(self._pipeline, _make_request(attempt, body))) as events:
                async for event in events:
                    usage = event.get("usage") or usage
                    for choice in event.get("choices") or ():
                        reason = choice.get("finish_reason") or reason
                        await attempt.send_text(choice.get("delta", {}).get("content") or "")
            return {"usage": usage, "finish_reason": reason}
        except GatewayError as error:
            if error.status == 403 and not isinstance(
                error, ForbiddenError
            ):  # refused by the guard or a rule
                await attempt.send_text(str(error))
                return BLOCKED
            raise CompletionRefusedError(
                str(error), again=error.status >= 500 or error.status == 429
            ) from error
        except _UNREADABLE as error:
            raise CompletionRefusedError("the worker's answer cannot be read", again=True) from error

    def _make_ask(self, attempt: AnswerAttempt, body: dict[str, Any]) -> StreamChat:
        number = itertools.count()

        def ask(
            messages: Sequence[dict[str, Any]], options: dict[str, Any]
        ) -> AsyncGenerator[dict[str, Any], None]:
            request = _make_request(attempt, {**body, "messages": messages, **options}, next(number))
            return stream_completion(self._pipeline, request)

        return ask


async def stream_completion(pipeline: PipelineCall, request: Request) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the chunks of the answer. Raises CompletionRefusedError, GatewayError, DecodeError."""
    try:
        reply = await pipeline(request)
        if reply.status != 200:
            raise CompletionRefusedError(
                _error_text(reply.body), again=reply.status >= 500 or reply.status == 429
            )
        if not is_event_stream(reply):
            answer = _decode(await read_whole_body(reply))
            for choice in answer["choices"]:
                choice["delta"] = choice["message"]
            yield answer
            return
        if reply.chunks is None:
            for event in _parse_events(reply.body):
                yield {"usage": BLOCKED["usage"]} | event if _ends_filtered(event) else event
            return
        async for chunk in reply.chunks:
            for event in _parse_events(chunk):
                yield event
    finally:
        for chunks in request.open_streams:
            await chunks.aclose()


def _make_body(attempt: AnswerAttempt) -> dict[str, Any]:
    parameters = attempt.answer.work_parameters or {}
    sampling = parameters.get("sampling_parameters") or {}
    body: dict[str, Any] = {
        "model": attempt.answer.model,
        "messages": to_chat_messages(attempt.build_worker_thread(), parameters),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if attempt.prefix:
        body["messages"].append({"role": "assistant", "content": attempt.prefix})
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    body |= {name: sampling[name] for name in _SAMPLING if sampling.get(name) is not None}
    if sampling.get("max_new_tokens") is not None:
        body["max_tokens"] = sampling["max_new_tokens"]
    if sampling.get("seed") is not None:
        body["seed"] = sampling["seed"]
    return body


def _make_request(attempt: AnswerAttempt, body: dict[str, Any], number: int = 0) -> Request:
    """Build the request; `number` counts the earlier ones of this attempt."""
    job = attempt.job
    request_id = job.attempt_id + (f"-{number}" if number else "")
    return make_completion_request(request_id, job.user_id, body, message=job.message_id)


def make_completion_request(
    request_id: str,
    user_id: str,
    body: dict[str, Any],
    *,
    surface: str = "chats",
    priority: int = 0,
    **noted: Any,
) -> Request:
    """Return a chat completion that the gateway itself asks its pipeline for.

    `surface`: on whose behalf, for the journal, which `noted` is added to. It has no client
    headers: the transport adds those that every request needs.
    """
    model: str | None = body["model"]
    request = Request(
        id=request_id,
        endpoint=CHAT_COMPLETIONS,
        path=CHAT_COMPLETIONS.path,
        journal=Journal(request_id),
        raw=msgspec.json.encode(body),
        model=model,
        stream=bool(body.get("stream")),
        priority=priority,
        caller=Caller(user=user_id),
    )
    request.journal.add("receive", surface=surface, model=model, **noted)
    return request


def to_chat_messages(thread: Iterable[Message], parameters: dict[str, Any]) -> list[dict[str, str]]:
    """Return `thread` as OpenAI's messages, after the system message that `parameters` ask for."""
    system = build_system_prompt(parameters)
    chat = [
        {"role": "user" if message.role is Role.PROMPTER else "assistant", "content": message.content or ""}
        for message in thread
    ]
    return [{"role": "system", "content": system}, *chat] if system else chat


def is_event_stream(reply: Reply) -> bool:
    """Return whether the body of `reply` is server-sent events."""
    kind = dict(reply.headers).get(b"content-type", b"")
    return kind.startswith(b"text/event-stream")


async def read_whole_body(reply: Reply) -> bytes:
    """Read the body of a `reply`, even where it comes in chunks."""
    return reply.body if reply.chunks is None else b"".join([chunk async for chunk in reply.chunks])


def _parse_events(chunk: bytes) -> Iterable[dict[str, Any]]:
    for data in iterate_data(chunk):
        event = _decode(data)
        if "error" in event:
            raise CompletionRefusedError(_error_text(data), again=True)
        yield event


def _ends_filtered(event: dict[str, Any]) -> bool:
    reasons = [choice.get("finish_reason") for choice in event.get("choices") or ()]
    return BLOCKED["finish_reason"] in reasons


def _error_text(body: bytes) -> str:
    try:
        error = _decode(body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:1000]
    except _UNREADABLE:
        return "the worker refused"
