"""Aborted answers of `/generate`: resumed from their tokens, retried, or passed on.

client ─► ResumeAborted ─► … ─► worker A   [prompt] ──► 120 tokens, abort (it takes new weights)
                        └─ … ─► worker B   [prompt + 120 tokens], 80 fewer wanted ──► 80 tokens, stop
client ◄─ one answer of 200 tokens ◄──────┘
"""

import asyncio
from dataclasses import replace
from random import getrandbits
from typing import Any

import msgspec

from radixway.core.config import AbortConfig
from radixway.core.pipeline import AbortedRequests, Endpoint, Next, Reply, Request
from radixway.trajectories.partial_answer import is_aborted
from radixway.trajectories.resumed_events import ResumedEvents
from radixway.trajectories.resumption import (
    AnswerAttempts,
    RequestResumption,
    WorkerTokenCalls,
    single_answer_request,
)

_ABORT_MARKER = b'"abort"'
"""Replies without it need no parsing."""

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder().decode


class ResumeAborted:
    """Handles answers with the finish reason `abort`, by `trajectories.abort.policy`.

    An abort requested at this gateway (`AbortedRequests`) is passed on with its partial answer.
    When the client disconnects, its request is aborted at its worker by `rid`.
    """

    def __init__(self, section: AbortConfig, aborts: AbortedRequests, workers: WorkerTokenCalls) -> None:
        self._section = section
        self._aborts = aborts
        self._workers = workers

    def applies_to(self, endpoint: Endpoint) -> bool:
        """True if workers say at `endpoint` exactly which tokens they sampled."""
        return endpoint.has_token_ids

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Answer `request` whole or as a stream; see the class."""
        running = self._aborts.register_request(_worker_rids(request), request.id)
        attempts = AnswerAttempts(request, running, call_next, self._section, self._aborts, self._workers)
        stream: ResumedEvents | None = None
        try:
            if self._section.policy == "retry" and not request.stream:
                return await self._retry(attempts)
            reply = await call_next(request)
            if reply.chunks is not None:
                resumable = request.answers == 1 and self._section.policy != "partial"
                stream = ResumedEvents(attempts, reply, resumable=resumable)
                request.open_streams.append(stream)
                reply.chunks = stream
                return reply
            if self._section.policy == "resume" and reply.status == 200 and _ABORT_MARKER in reply.body:
                return await self._resume(attempts, reply)
            return reply
        except asyncio.CancelledError:
            attempts.abort_at_workers()
            raise
        finally:
            if stream is None:
                self._aborts.unregister_request(running)

    async def _retry(self, attempts: AnswerAttempts) -> Reply:
        request, running = attempts.request, attempts.running
        reply = await attempts.call_next(request)
        for attempt in range(2, self._section.attempts + 1):
            if running.is_abort_requested or not _says_abort(reply):
                break
            request.journal.add("retry_aborted", attempt=attempt)
            request.routing.failed_workers.clear()
            await running.wait_for_abort(attempts.retry_wait_s)
            reply = await attempts.call_next(request)
        return reply

    async def _resume(self, attempts: AnswerAttempts, reply: Reply) -> Reply:
        payload = _decode_reply(reply.body)
        if isinstance(payload, list):
            return await self._resume_several(attempts, reply, payload)
        return await self._resume_one(attempts, reply, payload)

    async def _resume_one(self, attempts: AnswerAttempts, reply: Reply, payload: Any) -> Reply:
        """Return the last attempt's answer, joined to the earlier ones."""
        if not is_aborted(payload) or attempts.running.is_abort_requested:
            return reply
        resumption = RequestResumption(attempts)
        answer = resumption.read_reply(payload)
        if answer is None:
            return reply
        first = answer
        while answer.aborted:
            if (complete := resumption.complete_by_length(answer)) is not None:
                answer = complete
                break
            next_reply = await resumption.run_attempt(answer, reply.worker, fresh=True)
            second = resumption.read_reply(_decode_reply(next_reply.body)) if next_reply is not None else None
            if next_reply is None or second is None:
                break
            reply, answer = next_reply, await resumption.join_answer(second)
        if answer is not first:
            reply.body = _encode(answer.reply)
        return reply

    async def _resume_several(self, attempts: AnswerAttempts, reply: Reply, payload: list[Any]) -> Reply:
        """Resume each aborted answer of a batch with a request of its own."""
        request = attempts.request
        prompts = _count_prompts(request.body)
        if not any(map(is_aborted, payload)) or not prompts or len(payload) % prompts:
            return reply

        async def whole(index: int, item: Any) -> Any:
            if not is_aborted(item):
                return item
            body = single_answer_request(request.body, index, prompts, len(payload) // prompts)
            alone = request.copy(forget_failures=True, raw=_encode(body), _body=None)
            part = Reply(200, [], reply.worker, _encode(item))
            return _decode_reply((await self._resume_one(replace(attempts, request=alone), part, item)).body)

        answers = await asyncio.gather(*(whole(index, item) for index, item in enumerate(payload)))
        reply.body = _encode(answers)
        return reply


def _worker_rids(request: Request) -> tuple[str, ...]:
    """Return the request's ids at workers: ours if it has none."""
    if any(request.rids) or request.answers != 1:  # workers take one id for several answers each their way
        return request.rids
    rid = f"{request.id}-{getrandbits(32):08x}"  # two requests may bear one x-request-id
    request.add_field("rid", rid)
    return (rid,)


def _count_prompts(body: dict[str, Any]) -> int:
    for name in ("text", "input_ids"):
        given = body.get(name)
        if isinstance(given, list) and given:
            return len(given) if name == "text" or isinstance(given[0], list) else 1
    return 1


def _says_abort(reply: Reply) -> bool:
    if reply.status != 200 or reply.chunks is not None or _ABORT_MARKER not in reply.body:
        return False
    payload = _decode_reply(reply.body)
    return any(map(is_aborted, payload)) if isinstance(payload, list) else is_aborted(payload)


def _decode_reply(body: bytes) -> Any:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
