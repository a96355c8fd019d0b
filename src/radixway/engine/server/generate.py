"""POST /generate: SGLang's own protocol, what reinforcement-learning frameworks speak."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from radixway.engine.request import FinishReason, Output
from radixway.engine.server.answers import Answer, Answers
from radixway.engine.server.constraints import compiled
from radixway.engine.server.exchange import Exchange
from radixway.engine.server.generate_body import WIRE_NAMES, GenerateBody, generate_items, is_batch
from radixway.engine.server.generate_logprobs import LogprobLists
from radixway.engine.server.prompts import prompt_ids
from radixway.engine.server.sampling import wire_names
from radixway.engine.server.service import Job, Service, namespace_of
from radixway.web import read_json
from radixway.web.server_sent_events import DONE_EVENT, write_event

_DEFAULT_MAX_NEW_TOKENS = 128  # SGLang's

_decoder = msgspec.json.Decoder(GenerateBody)
_encode = msgspec.json.Encoder().encode


async def generate(service: Service, exchange: Exchange, raw: bytes) -> None:
    """Continue one or more prompts. Each event of a stream repeats the whole answer so far, as in SGLang."""
    arrived_at = time.perf_counter()
    body = read_json(_decoder, raw)
    param = "text" if body.text is not None else "input_ids"
    with wire_names({**WIRE_NAMES, "prompt": param}):
        items = generate_items(body, exchange.request_id)
        all_ids = await prompt_ids(service, [item.prompt for item in items], param=param)
        jobs = []
        for item, ids in zip(items, all_ids, strict=True):
            most = service.engine.model_info.context_length
            default = service.default_max_tokens(
                most if item.wants_all_that_fits else _DEFAULT_MAX_NEW_TOKENS, ids
            )
            grammar = await compiled(service, item.constraint)
            jobs += [Job(ids, params, item.rid) for params in item.params(default, grammar)]
        async with service.generate(
            jobs,
            arrived_at=arrived_at,
            namespace=namespace_of(cache_salt=body.cache_salt, extra_key=body.extra_key),
            priority=body.priority,
            meeting=body,
            traced=exchange.traced,
            also_known_as=[exchange.request_id, *([body.rid] if isinstance(body.rid, str) else [])],
        ) as answers:
            replies = _Replies(service, body, jobs, arrived_at)
            as_list = is_batch(body) or len(jobs) > 1
            if body.stream:
                await _stream(exchange, answers, replies, count=len(jobs), with_index=as_list)
            else:
                gathered = await answers.gather()
                whole = [replies.reply(index, answer, answer) for index, answer in enumerate(gathered)]
                await exchange.send_json(_encode(whole if as_list else whole[0]))


async def _stream(
    exchange: Exchange, answers: Answers, replies: "_Replies", *, count: int, with_index: bool
) -> None:
    so_far = [Answer() for _ in range(count)]
    unfinished = count
    async for index, output in answers:
        so_far[index].add(output)
        unfinished -= output.finish is not None
        reply = replies.reply(index, so_far[index], output)
        if with_index:
            reply["index"] = index
        event = write_event(_encode(reply))
        if not unfinished:
            await exchange.end_events(event + DONE_EVENT)
            return
        await exchange.send_events(event)


class _Replies:
    """Makes the reply for each answer, whole or so far."""

    def __init__(self, service: Service, body: GenerateBody, jobs: Sequence[Job], arrived_at: float) -> None:
        with_text = bool(body.return_text_in_logprobs)
        self._logprobs = [LogprobLists(service.tokenizer, job, with_text=with_text) for job in jobs]
        self._jobs = jobs
        self._arrived_at = arrived_at

    def reply(self, index: int, answer: Answer, new: Answer | Output) -> dict[str, Any]:
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
            self._logprobs[index].add(new)
            meta |= self._logprobs[index].lists
        return {"text": answer.text, "output_ids": answer.token_ids, "meta_info": meta}


def _finish_reason(answer: Answer) -> dict[str, Any] | None:
    match answer.finish:
        case None:
            return None
        case FinishReason(type="stop", matched=matched):
            return {"type": "stop", "matched": matched}
        case FinishReason(type="length"):
            return {"type": "length", "length": answer.completion_tokens}
        case FinishReason(message=message):
            return {"type": "abort", "message": message or "aborted"}
