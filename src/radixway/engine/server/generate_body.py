"""The body of SGLang's /generate: single or batch, checked and laid out as one item per prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from radixway.core.http import BadBodyError
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.constraint_fields import FieldConstraint, find_sampling_constraint
from radixway.engine.server.engine_service import split_prompts
from radixway.engine.server.sampling import (
    MAX_ANSWERS,
    SamplingDefaults,
    SamplingFields,
    broadcast_values,
    check_choice_count,
    make_sampling_params,
    unsupported_field_error,
)
from radixway.engine.structured_output import StructuredOutputGrammar

_NEUTRAL_DEFAULTS = SamplingDefaults()  # what SGLang takes, whatever the model's authors recommend


class GenerateSampling(SamplingFields, kw_only=True):
    """`sampling_params`, under SGLang's names."""

    max_tokens: int | msgspec.UnsetType | None = msgspec.field(name="max_new_tokens", default=msgspec.UNSET)
    """Null: as many as fit, as in SGLang; left out: SGLang's default."""
    min_tokens: int | None = msgspec.field(name="min_new_tokens", default=None)
    seed: int | None = msgspec.field(name="sampling_seed", default=None)
    include_stop: bool | None = msgspec.field(name="no_stop_trim", default=None)
    stop_regex: Any = None
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


class GenerateRequestBody(msgspec.Struct, kw_only=True):
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
    priority: int | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    bootstrap_host: str | list[str] | None = None
    bootstrap_port: int | list[int | None] | None = None
    bootstrap_room: int | list[int] | None = None
    input_embeds: Any = None
    image_data: Any = None
    audio_data: Any = None
    video_data: Any = None
    lora_path: Any = None
    session_params: Any = None
    return_hidden_states: Any = None


@dataclass(slots=True, frozen=True)
class LogprobOptions:
    """Which log-probabilities one prompt's answer carries, under SGLang's names."""

    start_len: int
    """The prompt's tokens are scored from here on; -1: only the answer's."""
    top_num: int
    token_ids: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class GenerateItem:
    """One prompt of the request."""

    prompt: str | list[int]
    rid: str
    sampling: GenerateSampling
    logprobs: LogprobOptions | None
    samples: int
    constraint: FieldConstraint | None

    @property
    def wants_all_that_fits(self) -> bool:
        """Its answer may be of any length."""
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
    _refuse_unsupported(body)
    prompts = _split_prompts(body)
    count = len(prompts)
    samplings = broadcast_values("sampling_params", body.sampling_params, count, GenerateSampling())
    base = body.rid if isinstance(body.rid, str) else request_id
    rids = [base] if count == 1 else [f"{base}_{index}" for index in range(count)]
    if isinstance(body.rid, list):
        rids = broadcast_values("rid", body.rid, count, "")
    items = [
        GenerateItem(
            prompt,
            rid,
            sampling,
            logprobs,
            check_choice_count(sampling, "sampling_params."),
            find_sampling_constraint(sampling.regex, sampling.json_schema, sampling.ebnf),
        )
        for prompt, rid, sampling, logprobs in zip(
            prompts, rids, samplings, _logprob_options(body, count), strict=True
        )
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
    token_ids = _token_ids_by_prompt(body.token_ids_logprob or [], count)
    return [
        LogprobOptions(start, top, ids) if logprob else None
        for logprob, start, top, ids in zip(wanted, starts, tops, token_ids, strict=True)
    ]


def _token_ids_by_prompt(given: list[int | list[int] | None], count: int) -> list[tuple[int, ...]]:
    """`token_ids_logprob` of each prompt: a list of ids is for all of them."""
    param = "token_ids_logprob"
    lists = [tuple(item) if isinstance(item, list) else () for item in given if not isinstance(item, int)]
    ids = tuple(item for item in given if isinstance(item, int))
    if ids and lists:
        message = f"{param} mixes token ids and lists of them"
        raise BadBodyError(message, param=param, code="invalid_type")
    return broadcast_values(param, lists, count, ()) if lists else [ids] * count


_UNSUPPORTED = (
    "input_embeds",
    "image_data",
    "audio_data",
    "video_data",
    "lora_path",
    "session_params",
    "return_hidden_states",
)
_UNSUPPORTED_SAMPLING = ("stop_regex", "structural_tag")


def _refuse_unsupported(body: GenerateRequestBody) -> None:
    for name in _UNSUPPORTED:
        if getattr(body, name):
            raise unsupported_field_error(name)
    samplings = body.sampling_params if isinstance(body.sampling_params, list) else [body.sampling_params]
    for name in _UNSUPPORTED_SAMPLING:
        if any(getattr(sampling, name, None) for sampling in samplings):
            raise unsupported_field_error(f"sampling_params.{name}")
