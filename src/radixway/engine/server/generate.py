"""POST /generate: SGLang's own protocol, which reinforcement-learning frameworks use."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from radixway.core.http.server_sent_events import write_event
from radixway.core.tokenizer import Tokenizer
from radixway.engine.engine_request import FinishReason, RequestOutput, TokenLogprob
from radixway.engine.server.engine_service import EngineService, GenerationJob
from radixway.engine.server.generate_body import (
    WIRE_NAMES,
    GenerateRequestBody,
    is_batch,
    parse_generate_items,
)
from radixway.engine.server.http_exchange import HttpExchange, encode
from radixway.engine.server.openai_replies import MIN_LOGPROB, make_weight_versions
from radixway.engine.server.sampling import field_names

LogprobEntry = tuple[float | None, int, str | None]
"""Log-probability, token id, and its text where that is asked for."""


class LogprobLists:
    """One answer's lists, one entry a token; the first of a prompt is of the token before those scored.

    They grow with the answer: each event of a stream repeats them all, and must not make them all anew.
    """

    def __init__(self, tokenizer: Tokenizer, job: GenerationJob, *, with_text: bool) -> None:
        params = job.params
        self.lists: dict[str, list[Any]] = {"input_token_logprobs": [], "output_token_logprobs": []}
        self._tokenizer = tokenizer
        self._with_text = with_text
        self._top, self._named = bool(params.logprobs), bool(params.logprob_ids)
        if self._top:
            self.lists |= {"input_top_logprobs": [], "output_top_logprobs": []}
        if self._named:
            self.lists |= {"input_token_ids_logprobs": [], "output_token_ids_logprobs": []}
        if params.prompt_logprobs is not None:
            for name in self.lists:
                if name.startswith("input"):
                    self.lists[name].append(None)
            first = job.prompt_ids[params.prompt_logprobs_start]
            self.lists["input_token_logprobs"] = [self._make_entry(first, None)]

    def append_part(self, part: RequestOutput) -> None:
        """Append the log-probabilities of `part`, the new tokens of the answer."""
        self._append_items("input", part.prompt_logprobs)
        self._append_items("output", part.logprobs)

    def _append_items(self, side: str, items: Sequence[TokenLogprob]) -> None:
        self.lists[f"{side}_token_logprobs"] += [
            self._make_entry(item.token_id, item.logprob) for item in items
        ]
        if self._top:
            self.lists[f"{side}_top_logprobs"] += [self._make_entries(item.top) for item in items]
        if self._named:
            self.lists[f"{side}_token_ids_logprobs"] += [self._make_entries(item.named) for item in items]

    def _make_entry(self, token_id: int, logprob: float | None) -> LogprobEntry:
        text = self._tokenizer.piece(token_id) if self._with_text else None
        return None if logprob is None else max(logprob, MIN_LOGPROB), token_id, text

    def _make_entries(self, pairs: Sequence[tuple[int, float]]) -> list[LogprobEntry]:
        return [self._make_entry(token_id, logprob) for token_id, logprob in pairs]


_DEFAULT_MAX_NEW_TOKENS = 128  # SGLang's


async def generate(service: EngineService, exchange: HttpExchange, body: GenerateRequestBody) -> None:
    """Continue one or more prompts. Each event of a stream repeats the whole answer so far, as in SGLang."""
    param = "text" if body.text is not None else "input_ids"
    with field_names({**WIRE_NAMES, "prompt": param}):
        items = parse_generate_items(body, exchange.request_id)
        all_ids = await service.encode_prompts([item.prompt for item in items], param=param)
        jobs = []
        for item, ids in zip(items, all_ids, strict=True):
            most = service.engine.model_info.context_length
            default = service.limit_max_tokens(
                most if item.wants_all_that_fits else _DEFAULT_MAX_NEW_TOKENS, ids
            )
            grammar = await service.compile_constraint(item.constraint)
            jobs += [
                GenerationJob(ids, params, item.rid) for params in item.make_sampling_params(default, grammar)
            ]
        aliases = [body.rid] if isinstance(body.rid, str) else []
        async with service.start_generations(
            exchange, jobs, body, extra_key=body.extra_key, aliases=aliases
        ) as answers:
            replies = _GenerateReplies(service, exchange, body, jobs)
            if body.stream:
                await answers.stream_events(exchange, replies.make_event)
            else:
                gathered = await answers.gather_outputs()
                whole = [replies.make_reply(index, answer) for index, answer in enumerate(gathered)]
                await exchange.send_json(whole if replies.as_list else whole[0])


class _GenerateReplies:
    """Makes the reply for each answer, whole or so far."""

    def __init__(
        self,
        service: EngineService,
        exchange: HttpExchange,
        body: GenerateRequestBody,
        jobs: Sequence[GenerationJob],
    ) -> None:
        with_text = bool(body.return_text_in_logprobs)
        self._logprobs = [LogprobLists(service.tokenizer, job, with_text=with_text) for job in jobs]
        self._jobs = jobs
        self._arrived_at = exchange.arrived_at
        self._answers: dict[int, RequestOutput] = {}
        self.as_list = is_batch(body) or len(jobs) > 1

    def make_event(self, index: int, output: RequestOutput) -> bytes:
        """The event for one more output of an answer."""
        reply = self.make_reply(index, output)
        if self.as_list:
            reply["index"] = index
        return write_event(encode(reply))

    def make_reply(self, index: int, answer: RequestOutput) -> dict[str, Any]:
        """The object for answer `index`, of which `answer` has come since the last call."""
        job = self._jobs[index]
        if job.params.logprobs is not None:
            self._logprobs[index].append_part(answer)
        if index in self._answers:
            answer.prepend_output(self._answers[index])
        self._answers[index] = answer
        host, disk = answer.host_tokens, answer.disk_tokens
        meta: dict[str, Any] = {
            "id": job.request_id,
            "finish_reason": _finish_reason(answer),
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "cached_tokens": answer.cached_tokens,
            "cached_tokens_details": {
                "device": answer.cached_tokens - host - disk,
                "host": host,
                "disk": disk,
            },
            "weight_version": answer.weight_version,
            "weight_versions": make_weight_versions(answer),
            "e2e_latency": time.perf_counter() - self._arrived_at,
        }
        if answer.remote_tokens:
            meta["remote_tokens"] = answer.remote_tokens
        if job.params.logprobs is not None:
            meta |= self._logprobs[index].lists
        return {"text": answer.text, "output_ids": answer.token_ids, "meta_info": meta}


def _finish_reason(answer: RequestOutput) -> dict[str, Any] | None:
    match answer.finish:
        case None:
            return None
        case FinishReason(type="stop", matched=matched):
            return {"type": "stop", "matched": matched}
        case FinishReason(type="length"):
            return {"type": "length", "length": answer.completion_tokens}
        case FinishReason(message=message):
            return {"type": "abort", "message": message or "aborted"}


class ConcatenateBody(msgspec.Struct):
    """The programs, by the frontend's names for them, whose texts continue that of `dst_rid`."""

    src_rids: list[str]
    dst_rid: str


async def concatenate(service: EngineService, exchange: HttpExchange, body: ConcatenateBody) -> None:
    """POST /concate_and_append_request: branches of a program were joined, one after another.

    Nothing has to be done: the frontend has appended their texts to the program's own, and sends all of it
    with the next request. What of it is cached is found by its tokens. (KV that was computed behind another
    text is not reused: it would not be what the model computes for this one.)
    """
    await exchange.send_json({"success": True})
