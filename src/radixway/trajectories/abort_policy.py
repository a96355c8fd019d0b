"""Aborted answers of `/generate`: resumed from their tokens, retried, or passed on.

client ─► ResumeAborted ─► … ─► worker A   [prompt] ──► 120 tokens, abort (it takes new weights)
                        └─ … ─► worker B   [prompt + 120 tokens], 80 fewer wanted ──► 80 tokens, stop
client ◄─ one answer of 200 tokens ◄──────┘
"""

import asyncio
import re
import uuid
from dataclasses import replace
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
_HAS_N = re.compile(rb'"n"\s*:\s*(?!\s|1\s*[,}]|null)')

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder().decode


class _RequestGlance(msgspec.Struct):
    """What is read of every body, without building its tokens."""

    rid: str | list[str] | None = None
    text: msgspec.Raw = msgspec.Raw(b"")
    input_ids: msgspec.Raw = msgspec.Raw(b"")
    sampling_params: msgspec.Raw = msgspec.Raw(b"")

    @property
    def several(self) -> bool:
        ids = bytes(memoryview(self.input_ids)[:16])
        return (
            bytes(self.text)[:1] == b"["
            or ids[:1] + ids[1:].lstrip()[:1] == b"[["
            or bytes(self.sampling_params)[:1] == b"["
            or _HAS_N.search(bytes(self.sampling_params)) is not None
        )


_glance = msgspec.json.Decoder(_RequestGlance).decode


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
        several, rids = _request_ids(request)
        running = self._aborts.register_request(rids, request.id)
        attempts = AnswerAttempts(request, running, call_next, self._section, self._aborts, self._workers)
        stream: ResumedEvents | None = None
        try:
            if self._section.policy == "retry" and not request.stream:
                return await self._retry(attempts)
            reply = await call_next(request)
            if reply.chunks is not None:
                resumable = not several and self._section.policy != "partial"
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


def _request_ids(request: Request) -> tuple[bool, list[str]]:
    """Return whether it asks for several answers, and its ids at workers: ours if it has none."""
    try:
        glance = _glance(request.raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True, []  # for the worker to refuse
    several = glance.several
    if isinstance(glance.rid, list):
        return several, glance.rid
    rid = glance.rid
    if not rid:
        if several:
            return True, []  # workers differ in how they take one id for several answers
        rid = f"{request.id}-{uuid.uuid4().hex[:8]}"  # two requests may bear one x-request-id
        request.edit(rid=rid)
    return several, [rid]


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
