"""POST /generate: SGLang's own protocol, what reinforcement-learning frameworks speak."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from radixway.engine.request import FinishReason, RequestOutput
from radixway.engine.server.answers import GatheredOutput, GenerationGroup
from radixway.engine.server.constraints import compile_constraint
from radixway.engine.server.exchange import HttpExchange
from radixway.engine.server.generate_body import (
    WIRE_NAMES,
    GenerateRequestBody,
    is_batch,
    parse_generate_items,
)
from radixway.engine.server.generate_logprobs import LogprobLists
from radixway.engine.server.prompts import encode_prompts
from radixway.engine.server.sampling import field_names
from radixway.engine.server.service import EngineService, GenerationJob, prefix_namespace
from radixway.web import decode_json
from radixway.web.server_sent_events import DONE_EVENT, write_event

_DEFAULT_MAX_NEW_TOKENS = 128  # SGLang's

_decoder = msgspec.json.Decoder(GenerateRequestBody)
_encode = msgspec.json.Encoder().encode


async def generate(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Continue one or more prompts. Each event of a stream repeats the whole answer so far, as in SGLang."""
    arrived_at = time.perf_counter()
    body = decode_json(_decoder, raw)
    param = "text" if body.text is not None else "input_ids"
    with field_names({**WIRE_NAMES, "prompt": param}):
        items = parse_generate_items(body, exchange.request_id)
        all_ids = await encode_prompts(service, [item.prompt for item in items], param=param)
        jobs = []
        for item, ids in zip(items, all_ids, strict=True):
            most = service.engine.model_info.context_length
            default = service.limit_max_tokens(
                most if item.wants_all_that_fits else _DEFAULT_MAX_NEW_TOKENS, ids
            )
            grammar = await compile_constraint(service, item.constraint)
            jobs += [
                GenerationJob(ids, params, item.rid) for params in item.make_sampling_params(default, grammar)
            ]
        async with service.start_generations(
            jobs,
            arrived_at=arrived_at,
            namespace=prefix_namespace(cache_salt=body.cache_salt, extra_key=body.extra_key),
            priority=body.priority,
            meeting=body,
            traced=exchange.traced,
            also_known_as=[exchange.request_id, *([body.rid] if isinstance(body.rid, str) else [])],
        ) as answers:
            replies = _GenerateReplies(service, body, jobs, arrived_at)
            as_list = is_batch(body) or len(jobs) > 1
            if body.stream:
                await _stream(exchange, answers, replies, count=len(jobs), with_index=as_list)
            else:
                gathered = await answers.gather_outputs()
                whole = [replies.make_reply(index, answer, answer) for index, answer in enumerate(gathered)]
                await exchange.send_json(_encode(whole if as_list else whole[0]))


async def _stream(
    exchange: HttpExchange,
    answers: GenerationGroup,
    replies: "_GenerateReplies",
    *,
    count: int,
    with_index: bool,
) -> None:
    so_far = [GatheredOutput() for _ in range(count)]
    unfinished = count
    async for index, output in answers:
        so_far[index].append_output(output)
        unfinished -= output.finish is not None
        reply = replies.make_reply(index, so_far[index], output)
        if with_index:
            reply["index"] = index
        event = write_event(_encode(reply))
        if not unfinished:
            await exchange.end_events(event + DONE_EVENT)
            return
        await exchange.send_events(event)


class _GenerateReplies:
    """Makes the reply for each answer, whole or so far."""

    def __init__(
        self,
        service: EngineService,
        body: GenerateRequestBody,
        jobs: Sequence[GenerationJob],
        arrived_at: float,
    ) -> None:
        with_text = bool(body.return_text_in_logprobs)
        self._logprobs = [LogprobLists(service.tokenizer, job, with_text=with_text) for job in jobs]
        self._jobs = jobs
        self._arrived_at = arrived_at

    def make_reply(
        self, index: int, answer: GatheredOutput, new: GatheredOutput | RequestOutput
    ) -> dict[str, Any]:
        """The object for one answer, of which `new` has come since the last time."""
        job = self._jobs[index]
        meta: dict[str, Any] = {
            "id": job.request_id,
            "finish_reason": _finish_reason(answer),
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "cached_tokens": answer.cached_tokens,
            "cached_tokens_details": answer.cached_by_tier,
            "weight_version": answer.weight_version,
            "weight_versions": answer.weight_versions,
            "e2e_latency": time.perf_counter() - self._arrived_at,
        }
        if answer.remote_tokens:
            meta["remote_tokens"] = answer.remote_tokens
        if job.params.logprobs is not None:
            self._logprobs[index].append_part(new)
            meta |= self._logprobs[index].lists
        return {"text": answer.text, "output_ids": answer.token_ids, "meta_info": meta}


def _finish_reason(answer: GatheredOutput) -> dict[str, Any] | None:
    match answer.finish:
        case None:
            return None
        case FinishReason(type="stop", matched=matched):
            return {"type": "stop", "matched": matched}
        case FinishReason(type="length"):
            return {"type": "length", "length": answer.completion_tokens}
        case FinishReason(message=message):
            return {"type": "abort", "message": message or "aborted"}
