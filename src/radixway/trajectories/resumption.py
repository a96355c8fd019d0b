"""One request over several attempts: the body of the next one, and the joined answer."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import UNSET

from radixway.core.config import AbortConfig
from radixway.core.pipeline import AbortedRequests, GatewayError, Next, Reply, Request, RunningRequest
from radixway.trajectories.partial_answer import (
    Json,
    PartialAnswer,
    cut_answer,
    find_stop_across,
    is_clean_splice,
    join_answers,
    read_partial_answer,
    repair_splice,
)

_DEFAULT_MAX_NEW_TOKENS = 128
"""SGLang's default."""

_CONSTRAINTS = ("regex", "json_schema", "ebnf", "structural_tag", "stop_regex")


def sampling_params(body: Json) -> Json:
    """`sampling_params` of `body`; empty if it has none."""
    params = body.get("sampling_params")
    return params if isinstance(params, dict) else {}


def stop_strings(body: Json) -> list[str]:
    """The stop strings of `body`."""
    given = sampling_params(body).get("stop")
    stops = [given] if isinstance(given, str) else given
    return [stop for stop in stops if isinstance(stop, str)] if isinstance(stops, list) else []


def continuation_obstacle(body: Json) -> str | None:
    """The field of `body` that keeps an answer from being continued; None if there is none.

    A grammar would begin again in the middle of the answer; to embeddings no token can be appended, and a
    session of the worker's own would be given its turn twice.
    """
    params = sampling_params(body)
    for name in _CONSTRAINTS:
        if params.get(name):
            return f"sampling_params.{name}"
    return next((name for name in ("input_embeds", "session_params") if body.get(name)), None)


def remaining_tokens(body: Json, sampled: int) -> int | None:
    """The number of tokens that may still be sampled; None leaves it to the worker.

    That is where the request gives no number and the worker has made more than its default: then it has a
    default of its own.
    """
    max_new = sampling_params(body).get("max_new_tokens")
    if type(max_new) is int:
        return max(0, max_new - sampled)
    return _DEFAULT_MAX_NEW_TOKENS - sampled if sampled < _DEFAULT_MAX_NEW_TOKENS else None


def continuation_fields(
    body: Json, answer: PartialAnswer, prompt_ids: Sequence[int] | None
) -> dict[str, Any]:
    """The fields of `body` to change for the next attempt (`Request.edit`): none if nothing was sampled.

    Without `prompt_ids` the text so far is sent as text, of which a worker may make other tokens.
    """
    if not answer.ids:
        return {}
    fields: dict[str, Any] = {"sampling_params": _reduce_budget(body, len(answer.ids))}
    if prompt_ids is not None:
        fields |= {"input_ids": [*prompt_ids, *answer.ids], "text": UNSET}
    else:
        fields["text"] = f"{body.get('text') or ''}{answer.text}"
    if body.get("logprob_start_len") is not None:
        fields["logprob_start_len"] = -1  # the prompt's have come with the first part
    prompt_tokens = answer.meta.get("prompt_tokens")
    if type(prompt_tokens) is int and isinstance(answer.meta.get("routed_experts"), str):
        fields["routed_experts_start_len"] = prompt_tokens + len(answer.ids) - 1
    return fields


def _reduce_budget(body: Json, sampled: int) -> Json:
    params = dict(sampling_params(body))
    left = remaining_tokens(body, sampled)
    if left is not None:
        params["max_new_tokens"] = left
    min_new = params.get("min_new_tokens")
    if type(min_new) is int:
        params["min_new_tokens"] = max(0, min_new - sampled)
    return params


_FIRST_WAIT_S = 0.05
_MAX_WAIT_S = 1.0
_RETRY_WAIT_S = 30.0
_RETRYABLE_STATUSES = frozenset({429, 502, 503})
"""Temporary refusals, during weight updates for instance."""
_TOKEN_ID_FIELDS = ("input_ids", "token_ids_logprob")
_MAX_STOP_TOKENS = 64
"""Tokens after a splice that are searched for the end of a stop string."""


class WorkerTokenCalls(Protocol):
    """Calls to single workers, by their names; transports implement it. None of it raises."""

    def abort(self, worker: str, rid: str) -> None:
        """Tell `worker` soon, without waiting, that request `rid` is no longer wanted."""

    def model_of(self, worker: str) -> str | None:
        """The model that `worker` uses if a request names none; None if that is not known."""

    async def tokenize(self, worker: str, model: str | None, text: str) -> Sequence[int] | None:
        """The tokens of the prompt `text`; None if no worker can tell."""

    async def detokenize(
        self, worker: str, model: str | None, ids: Sequence[int], *, skip_special_tokens: bool
    ) -> str | None:
        """The text of the tokens `ids`; None if no worker can tell."""


@dataclass(slots=True, frozen=True)
class AnswerAttempts:
    """A request of `/generate` and what its attempts after the first one need."""

    request: Request
    running: RunningRequest
    call_next: Next
    section: AbortConfig
    aborts: AbortedRequests
    workers: WorkerTokenCalls

    @property
    def retry_wait_s(self) -> float:
        """Return the seconds before a retry under the policy `retry`."""
        return _RETRY_WAIT_S if self.section.wait_s is None else self.section.wait_s

    def abort_at_workers(self) -> None:
        """Abort the request at its workers; not all of them notice a closed connection."""
        for worker in dict.fromkeys(self.request.routing.attempted_workers):
            for rid in self.running.rids:
                self.workers.abort(worker, rid)

    def close_stream(self, *, unfinished: bool) -> None:
        """The stream to the client was closed; `unfinished`: before its end."""
        self.aborts.unregister_request(self.running)
        if unfinished:
            self.abort_at_workers()

    async def retry_stream(self, attempt: int) -> Reply | None:
        """Retry the stream as attempt number `attempt`; None if an abort was requested."""
        await self.running.wait_for_abort(self.retry_wait_s)
        if self.running.is_abort_requested:
            return None
        self.request.journal.add("retry_aborted", attempt=attempt)
        return await self.call_next(self.request.copy(forget_failures=True))


class RequestResumption:
    """The attempts after the first one, under the policy `resume`: `run_attempt`, then `join_answer`."""

    def __init__(self, attempts: AnswerAttempts) -> None:
        """Raises BadBodyError if the request's body cannot be decoded."""
        self._attempts = attempts
        self._request = attempts.request
        self._body = attempts.request.body
        self._workers = attempts.workers
        self._num_attempts = 1
        self._base: PartialAnswer | None = None
        self._prompt_ids: Sequence[int] | None = None
        self._prompt_requested = False
        self._between: str | None = None
        """The character across the splice, once known."""
        self._worker = ""

    def read_reply(self, reply: object) -> PartialAnswer | None:
        """Read a worker's `reply`; None for one that is no answer."""
        start = self._body.get("routed_experts_start_len")
        return read_partial_answer(
            reply,
            with_logprobs=self._body.get("return_logprob") is True,
            experts_start=start if type(start) is int else 0,
        )

    def complete_by_length(self, answer: PartialAnswer) -> PartialAnswer | None:
        """Return the aborted answer as ended by its length, if it has all requested tokens; else None."""
        if not answer.ids or remaining_tokens(self._body, len(answer.ids)) != 0:
            return None
        count = int(sampling_params(self._body)["max_new_tokens"])
        return cut_answer(answer, min(count, len(answer.ids)), finish={"type": "length", "length": count})

    async def run_attempt(self, answer: PartialAnswer, worker: str, *, fresh: bool) -> Reply | None:
        """The reply to the next attempt at `answer`, which `worker` aborted; None where that is the answer.

        `fresh`: the client has seen nothing yet, so an answer that cannot be continued may restart.
        """
        if self._num_attempts >= self._attempts.section.attempts or self._attempts.running.is_abort_requested:
            return None
        self._worker = worker
        if answer.text_is_longer:
            decoded = await self._detokenize(answer.ids)
            answer = (
                cut_answer(answer, 0, text="")
                if decoded is None
                else cut_answer(answer, len(answer.ids), text=decoded)
            )
        hindered_by = continuation_obstacle(self._body) if answer.ids else None
        if hindered_by is not None and not fresh:
            self._note_attempt(reason=f"{hindered_by} cannot be continued")
            return None
        request = self._request.copy()
        self._pin_model(request, worker)
        if hindered_by is None:
            prompt_ids = await self._find_prompt_ids(answer, worker) if answer.ids else None
            request.edit(**continuation_fields(self._body, answer, prompt_ids))
            self._base, exact = answer, prompt_ids is not None or not answer.ids
        else:
            self._base, exact = None, True
        num_tokens = len(answer.ids) if self._base is not None else 0
        while self._num_attempts < self._attempts.section.attempts:
            await self._attempts.running.wait_for_abort(self._wait_s())
            if self._attempts.running.is_abort_requested:
                return None
            self._num_attempts += 1
            self._between = None
            self._note_attempt(attempt=self._num_attempts, tokens=num_tokens, exact=exact)
            reply, later = await self._call_worker(request.copy(forget_failures=True))
            if reply is not None or not later:
                return reply
        return None

    async def _call_worker(self, request: Request) -> tuple[Reply | None, bool]:
        """Return a worker's answer; without one, whether there may be one later."""
        try:
            reply = await self._attempts.call_next(request)
        except GatewayError as error:
            self._note_attempt(reason=error.code)
            return None, error.status in _RETRYABLE_STATUSES
        if reply.status == 200:
            return reply, False
        self._note_attempt(reason=f"{reply.worker} answered {reply.status}")
        if reply.chunks is not None:
            await reply.chunks.aclose()
        return None, reply.status in _RETRYABLE_STATUSES

    async def join_answer(self, second: PartialAnswer) -> PartialAnswer:
        """The whole answer, of which the attempt under way has given `second` so far."""
        base = self._base
        if base is None:
            return second
        answer = join_answers(base, second, await self._joined_text(base, second))
        answer.meta["resumed"] = self._num_attempts - 1
        stop = find_stop_across(answer.text, len(base.text), stop_strings(self._body))
        return answer if stop is None else await self._cut_at(answer, len(base.ids), *stop)

    def _pin_model(self, request: Request, worker: str) -> None:
        """Pin the model: one model's tokens are no prompt for another."""
        model = self._body.get("model")
        if isinstance(model, str):
            request.model = model
        elif request.model is None:
            request.model = self._workers.model_of(worker)

    async def _find_prompt_ids(self, answer: PartialAnswer, worker: str) -> Sequence[int] | None:
        if not self._prompt_requested:
            self._prompt_requested = True
            given, text = self._body.get("input_ids"), self._body.get("text")
            if isinstance(given, list):
                self._prompt_ids = given
            elif isinstance(text, str):
                ids = await self._workers.tokenize(worker, self._model, text)
                counted = answer.meta.get("prompt_tokens")
                if ids is not None and (type(counted) is not int or counted == len(ids)):
                    self._prompt_ids = ids
        return self._prompt_ids

    async def _joined_text(self, first: PartialAnswer, second: PartialAnswer) -> str:
        one, two = first.text, second.text
        if is_clean_splice(one, two):
            return one + two
        head, tail = one.rstrip("\ufffd"), two.lstrip("\ufffd")
        if self._between is not None and tail:
            return head + self._between + tail
        if not tail and second.meta.get("finish_reason") is None:
            return head  # the rest of the character may be on its way
        decoded = await self._detokenize(first.ids + second.ids)
        text = repair_splice(one, two, decoded) if decoded is not None else None
        if text is None:
            self._note_attempt(reason="the text at the seam is as two workers decoded it", exact=False)
            text = one + two
            self._between = one[len(head) :] + two[: len(two) - len(tail)]
        elif tail:
            self._between = text[len(head) : len(text) - len(tail)]
        return text

    async def _cut_at(self, answer: PartialAnswer, seam: int, at: int, end: int, stop: str) -> PartialAnswer:
        """End the answer at the token that completes the stop string."""
        params = sampling_params(self._body)
        min_new = params.get("min_new_tokens")
        for count in range(seam + 1, min(len(answer.ids), seam + _MAX_STOP_TOKENS) + 1):
            decoded = await self._detokenize(answer.ids[:count])
            if decoded is None:
                break
            if decoded.find(stop, max(0, at - 1), end) >= 0:
                if type(min_new) is int and count <= min_new:
                    return answer
                text = answer.text[: end if params.get("no_stop_trim") else at]
                return cut_answer(answer, count, text=text, finish={"type": "stop", "matched": stop})
        reason = "a stop string spans the splice, and its tokens are unknown"
        self._note_attempt(reason=reason, exact=False)
        return answer

    async def _detokenize(self, ids: Sequence[int]) -> str | None:
        skip = sampling_params(self._body).get("skip_special_tokens") is not False
        return await self._workers.detokenize(self._worker, self._model, ids, skip_special_tokens=skip)

    @property
    def _model(self) -> str | None:
        model = self._body.get("model")
        return model if isinstance(model, str) else None

    def _wait_s(self) -> float:
        if self._attempts.section.wait_s is not None:
            return self._attempts.section.wait_s
        longest = min(_MAX_WAIT_S, _FIRST_WAIT_S * 2.0 ** (self._num_attempts - 1))
        return longest * random.uniform(0.5, 1)  # so that what was aborted together does not come back so

    def _note_attempt(self, **fields: Any) -> None:
        self._request.journal.add("resume", **fields)


def single_answer_request(body: Json, index: int, prompts: int, samples: int) -> Json:
    """The request for one answer of a batch: `index` among `prompts` × `samples` of them.

    Fields that hold a list with an entry for each prompt hold that entry.
    """
    prompt = index // samples
    item = {
        name: value[prompt] if _is_for_each(name, value, prompts) else value for name, value in body.items()
    }
    params = item.get("sampling_params")
    if isinstance(params, dict) and params.get("n") is not None:
        item["sampling_params"] = params | {"n": 1}
    return item


def _is_for_each(name: str, value: object, prompts: int) -> bool:
    if not isinstance(value, list) or len(value) != prompts:
        return False
    # Unless these are lists, the ids are for all prompts, or for the only one.
    return name not in _TOKEN_ID_FIELDS or isinstance(value[0], list)
