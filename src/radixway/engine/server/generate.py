"""POST /generate: SGLang's own protocol, which reinforcement-learning frameworks use.

The body, single or batch, checked and laid out as one item per prompt; and the replies, whole or streamed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from radixway.core.http import BadBodyError
from radixway.core.http.server_sent_events import write_event
from radixway.core.parsers import detect_thinking_place
from radixway.core.parsers.parts import ThinkingPlace
from radixway.engine.engine_request import FinishReason, RequestOutput
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.engine_service import EngineService, GenerationJob, split_prompts
from radixway.engine.server.generate_logprobs import LogprobLists
from radixway.engine.server.http_exchange import HttpExchange, encode
from radixway.engine.server.openai_fields import FieldConstraint, find_sampling_constraint
from radixway.engine.server.openai_replies import make_weight_versions
from radixway.engine.server.reasoning import ReasoningCounts, wrap_reasoner_grammar
from radixway.engine.server.sampling import (
    MAX_ANSWERS,
    SamplingDefaults,
    broadcast_values,
    check_choice_count,
    field_names,
    make_sampling_params,
)
from radixway.engine.server.unsupported_fields import (
    UnsupportedGenerateFields,
    UnsupportedSamplingFields,
    refuse_unsupported,
)
from radixway.engine.structured_output import StructuredOutputGrammar

_MAX_TOP_LOGPROBS = 100
_NEUTRAL_DEFAULTS = SamplingDefaults()  # what SGLang takes, whatever the model's authors recommend


class GenerateSampling(UnsupportedSamplingFields, kw_only=True):
    """`sampling_params`, under SGLang's names."""

    max_tokens: int | msgspec.UnsetType | None = msgspec.field(name="max_new_tokens", default=msgspec.UNSET)
    """Null: as many as fit, as in SGLang; left out: SGLang's default."""
    min_tokens: int | None = msgspec.field(name="min_new_tokens", default=None)
    seed: int | None = msgspec.field(name="sampling_seed", default=None)
    include_stop: bool | None = msgspec.field(name="no_stop_trim", default=None)
    regex: str | None = None
    json_schema: Any = None
    ebnf: str | None = None
    structural_tag: Any = None


WIRE_NAMES = {
    field.name: f"sampling_params.{field.encode_name}" for field in msgspec.structs.fields(GenerateSampling)
} | {
    "prompt": "input_ids",
    "logprobs": "top_logprobs_num",
    "prompt_logprobs": "top_logprobs_num",
    "prompt_logprobs_start": "logprob_start_len",
    "logprob_ids": "token_ids_logprob",
}
"""SamplingParams' fields as /generate calls them."""


class GenerateRequestBody(UnsupportedGenerateFields, kw_only=True):
    """The request."""

    text: str | list[str] | None = None
    input_ids: list[int | list[int]] | None = None
    sampling_params: GenerateSampling | list[GenerateSampling] | None = None
    rid: str | list[str] | None = None
    stream: bool | None = None
    return_logprob: bool | list[bool] | None = None
    logprob_start_len: int | list[int] | None = None
    top_logprobs_num: int | list[int] | None = None
    token_ids_logprob: list[int | list[int] | None] | None = None
    return_text_in_logprobs: bool | None = None
    require_reasoning: bool | None = None
    """The answer reasons as the model's chats do: count that, and bind what follows by the constraint."""
    priority: int | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    bootstrap_host: str | list[str] | None = None
    bootstrap_port: int | list[int | None] | None = None
    bootstrap_room: int | list[int] | None = None


@dataclass(slots=True, frozen=True)
class LogprobOptions:
    """The log-probabilities that one prompt's answer carries, under SGLang's names."""

    start_len: int
    """The prompt's tokens are scored from here on; -1: only the answer's."""
    top_num: int
    token_ids: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class GenerateItem:
    """A prompt of the request."""

    prompt: str | list[int]
    rid: str
    sampling: GenerateSampling
    logprobs: LogprobOptions | None
    samples: int
    constraint: FieldConstraint | None

    @property
    def wants_all_that_fits(self) -> bool:
        """Return whether its answer may be of any length."""
        return self.sampling.max_tokens is None

    def make_sampling_params(
        self, default_max_tokens: int, grammar: StructuredOutputGrammar | None
    ) -> list[SamplingParams]:
        """Parameters of each sample, with `grammar`. Raises InvalidRequestError naming the field."""
        wanted, scored = self.sampling.max_tokens, self.logprobs
        return [
            make_sampling_params(
                self.sampling,
                _NEUTRAL_DEFAULTS,
                max_tokens=wanted if isinstance(wanted, int) else default_max_tokens,
                logprobs=scored.top_num if scored else None,
                logprob_ids=scored.token_ids if scored else (),
                prompt_logprobs=scored.top_num if scored and scored.start_len >= 0 else None,
                prompt_logprobs_start=max(0, scored.start_len) if scored else 0,
                choice=sample,
                grammar=grammar,
                place="sampling_params.",
            )
            for sample in range(self.samples)
        ]


def is_batch(body: GenerateRequestBody) -> bool:
    """True if `body` has a list of prompts: then the answer is a list too."""
    return isinstance(body.text, list) or bool(body.input_ids and isinstance(body.input_ids[0], list))


def parse_generate_items(body: GenerateRequestBody, request_id: str) -> list[GenerateItem]:
    """Split `body` into prompts with parameters. Raises BadBodyError (400) naming the field at fault."""
    refuse_unsupported(body, UnsupportedGenerateFields)
    prompts = _split_prompts(body)
    count = len(prompts)
    samplings = broadcast_values("sampling_params", body.sampling_params, count, GenerateSampling())
    for sampling in samplings:
        refuse_unsupported(sampling, UnsupportedSamplingFields, "sampling_params.")
    base = body.rid if isinstance(body.rid, str) else request_id
    rids = [base] if count == 1 else [f"{base}_{index}" for index in range(count)]
    if isinstance(body.rid, list):
        rids = broadcast_values("rid", body.rid, count, "")
    scored = _logprob_options(body, count)
    items = [
        GenerateItem(
            prompt,
            rid,
            sampling,
            logprobs,
            check_choice_count(sampling, "sampling_params."),
            find_sampling_constraint(
                sampling.regex, sampling.json_schema, sampling.ebnf, sampling.structural_tag
            ),
        )
        for prompt, rid, sampling, logprobs in zip(prompts, rids, samplings, scored, strict=True)
    ]
    if sum(item.samples for item in items) > MAX_ANSWERS:
        param = "text" if body.text is not None else "input_ids"
        raise BadBodyError(f"{param}: prompts times n are more than {MAX_ANSWERS} answers", param=param)
    return items


def _split_prompts(body: GenerateRequestBody) -> Sequence[str | list[int]]:
    if body.text is not None and body.input_ids is None:
        return split_prompts(body.text, param="text")
    if body.input_ids is not None and body.text is None:
        return split_prompts(body.input_ids, param="input_ids")
    raise BadBodyError("give either text or input_ids", param="text", code="missing_field")


def _logprob_options(body: GenerateRequestBody, count: int) -> list[LogprobOptions | None]:
    wanted = broadcast_values("return_logprob", body.return_logprob, count, False)
    starts = broadcast_values("logprob_start_len", body.logprob_start_len, count, -1)
    tops = broadcast_values("top_logprobs_num", body.top_logprobs_num, count, 0)
    if any(start < -1 for start in starts):
        message = f"logprob_start_len must be -1 (only the answer) or at least 0, not {min(starts)}"
        raise BadBodyError(message, param="logprob_start_len")
    if any(not 0 <= top <= _MAX_TOP_LOGPROBS for top in tops):
        message = f"top_logprobs_num must be in [0, {_MAX_TOP_LOGPROBS}], not {max(tops, key=abs)}"
        raise BadBodyError(message, param="top_logprobs_num")
    token_ids = _token_ids_by_prompt(body.token_ids_logprob or [], count, is_batch=is_batch(body))
    return [
        LogprobOptions(start, top, ids) if logprob else None
        for logprob, start, top, ids in zip(wanted, starts, tops, token_ids, strict=True)
    ]


def _token_ids_by_prompt(
    given: list[int | list[int] | None], count: int, *, is_batch: bool
) -> list[tuple[int, ...]]:
    """Return `token_ids_logprob` of each prompt; a list of ids is for all, lists of them are for a batch."""
    param = "token_ids_logprob"
    lists = [tuple(item) if isinstance(item, list) else () for item in given if not isinstance(item, int)]
    ids = tuple(item for item in given if isinstance(item, int))
    if ids and lists:
        message = f"{param} mixes token ids and lists of them"
        raise BadBodyError(message, param=param, code="invalid_type")
    if lists and not is_batch:
        message = f"{param} must be a flat list of integers for a prompt that is no batch"
        raise BadBodyError(message, param=param, code="invalid_type")
    return broadcast_values(param, lists, count, ()) if lists else [ids] * count


_DEFAULT_MAX_NEW_TOKENS = 128  # SGLang's


async def generate(service: EngineService, exchange: HttpExchange, body: GenerateRequestBody) -> None:
    """Continue one or more prompts. Each event of a stream repeats the whole answer so far, as in SGLang."""
    param = "text" if body.text is not None else "input_ids"
    with field_names({**WIRE_NAMES, "prompt": param}):
        items = parse_generate_items(body, exchange.request_id)
        all_ids = await service.encode_prompts([item.prompt for item in items], param=param)
        jobs, places = [], list[ThinkingPlace]()
        _drop_unknown_stops(items, service.engine.model_info.vocab_size)
        for item, ids in zip(items, all_ids, strict=True):
            context_length = service.engine.model_info.context_length
            wanted = context_length if item.wants_all_that_fits else _DEFAULT_MAX_NEW_TOKENS
            default = service.limit_max_tokens(wanted, ids)
            compiled = await service.compile_constraint(item.constraint)
            place = _find_reasoning(service, ids) if body.require_reasoning else "after"
            grammar = wrap_reasoner_grammar(service.tokenizer, compiled, place)
            places += [place] * item.samples
            all_params = item.make_sampling_params(default, grammar)
            jobs += [GenerationJob(ids, params, item.rid) for params in all_params]
        aliases = [body.rid] if isinstance(body.rid, str) else []
        client_ids = body.rid if isinstance(body.rid, list) else aliases
        async with service.start_generations(
            exchange, jobs, body, extra_key=body.extra_key, aliases=aliases, client_ids=client_ids
        ) as answers:
            replies = _GenerateReplies(service, exchange, body, jobs, places)
            if body.stream:
                await answers.stream_events(exchange, replies.make_event)
            else:
                gathered = await answers.gather_outputs()
                all_replies = [replies.make_reply(index, answer) for index, answer in enumerate(gathered)]
                await exchange.send_json(all_replies if replies.as_list else all_replies[0])


def _drop_unknown_stops(items: Sequence[GenerateItem], vocab_size: int) -> None:
    """Leave out stop tokens that the model does not have, which SGLang takes: none of them ever comes."""
    for item in items:
        if given := item.sampling.stop_token_ids:
            item.sampling.stop_token_ids = [token_id for token_id in given if token_id < vocab_size]


def _find_reasoning(service: EngineService, prompt_ids: Sequence[int]) -> ThinkingPlace:
    """Return where the answer to a prompt of `prompt_ids` begins, before its reasoning or within."""
    end = service.tokenizer.decode(prompt_ids[-_MARKER_TOKENS:], skip_special_tokens=False)
    return detect_thinking_place(service.family.thinking, end, None)


_MARKER_TOKENS = 16  # more than `</think>` and the space after it have


class _GenerateReplies:
    """Builds the replies, whole or so far."""

    def __init__(
        self,
        service: EngineService,
        exchange: HttpExchange,
        body: GenerateRequestBody,
        jobs: Sequence[GenerationJob],
        places: Sequence[ThinkingPlace],
    ) -> None:
        with_text = bool(body.return_text_in_logprobs)
        self._logprobs = [LogprobLists(service.tokenizer, job, with_text=with_text) for job in jobs]
        self._jobs = jobs
        self._reasoning = [ReasoningCounts(service.tokenizer, place) for place in places]
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
        reasoning_tokens = self._reasoning[index].add_tokens(0, answer.token_ids)
        if index in self._answers:
            answer.prepend_output(self._answers[index])
        self._answers[index] = answer
        host, disk = answer.host_tokens, answer.disk_tokens
        meta: dict[str, Any] = {
            "id": job.request_id,
            "finish_reason": _finish_reason(answer),
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "reasoning_tokens": reasoning_tokens,
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
