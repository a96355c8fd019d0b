"""The body of SGLang's /generate: single or batch, checked and laid out as one item per prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from radixway.core.http import BadBodyError
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.constraint_fields import FieldConstraint, find_sampling_constraint
from radixway.engine.server.prompt_inputs import split_prompts
from radixway.engine.server.sampling import (
    MAX_ANSWERS,
    MAX_CHOICES,
    broadcast_values,
    derive_choice_seed,
    parse_stop_strings,
    unsupported_field_error,
)
from radixway.engine.structured_output import StructuredOutputGrammar

T = TypeVar("T")

WIRE_NAMES = {
    "prompt": "input_ids",
    "max_tokens": "sampling_params.max_new_tokens",
    "min_tokens": "sampling_params.min_new_tokens",
    "seed": "sampling_params.sampling_seed",
    "logprobs": "top_logprobs_num",
    "prompt_logprobs": "top_logprobs_num",
    "prompt_logprobs_start": "logprob_start_len",
    "logprob_ids": "token_ids_logprob",
} | {
    name: f"sampling_params.{name}"
    for name in (
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "stop",
        "stop_token_ids",
        "logit_bias",
    )
}
"""SamplingParams' fields as /generate calls them."""


class GenerateSampling(msgspec.Struct, kw_only=True):
    """`sampling_params`, under SGLang's names."""

    max_new_tokens: int | msgspec.UnsetType | None = msgspec.UNSET
    """Null: as many as fit, as in SGLang; left out: SGLang's default."""
    min_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    no_stop_trim: bool | None = None
    n: int | None = None
    sampling_seed: int | None = None
    logit_bias: dict[int, float] | None = None
    stop_regex: Any = None
    regex: Any = None
    json_schema: Any = None
    ebnf: Any = None
    structural_tag: Any = None


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
        return self.sampling.max_new_tokens is None

    def make_sampling_params(
        self, default_max_tokens: int, grammar: StructuredOutputGrammar | None
    ) -> list[SamplingParams]:
        """Parameters of each sample, with `grammar`. Raises InvalidRequestError naming the field."""
        return [
            _sampling_params(self.sampling, self.logprobs, sample, default_max_tokens, grammar)
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
        GenerateItem(prompt, rid, sampling, logprobs, _sample_count(sampling), _find_constraint(sampling))
        for prompt, rid, sampling, logprobs in zip(
            prompts, rids, samplings, _logprob_options(body, count), strict=True
        )
    ]
    if sum(item.samples for item in items) > MAX_ANSWERS:
        param = "text" if body.text is not None else "input_ids"
        message = f"{param}: prompts times n are more than {MAX_ANSWERS} answers"
        raise BadBodyError(message, param=param, code="invalid_value")
    return items


def _split_prompts(body: GenerateRequestBody) -> Sequence[str | list[int]]:
    if body.text is not None and body.input_ids is None:
        return split_prompts(body.text, param="text")
    if body.input_ids is not None and body.text is None:
        return split_prompts(body.input_ids, param="input_ids")
    raise BadBodyError("give either text or input_ids", param="text", code="missing_field")


def _logprob_options(body: GenerateRequestBody, count: int) -> list[LogprobOptions | None]:
    """What each of `count` prompts asks for; None where it asks for none."""
    wanted = broadcast_values("return_logprob", body.return_logprob, count, False)
    starts = broadcast_values("logprob_start_len", body.logprob_start_len, count, -1)
    tops = broadcast_values("top_logprobs_num", body.top_logprobs_num, count, 0)
    if any(start < -1 for start in starts):
        message = f"logprob_start_len must be -1 (only the answer) or at least 0, not {min(starts)}"
        raise BadBodyError(message, param="logprob_start_len", code="invalid_value")
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


def _sample_count(sampling: GenerateSampling) -> int:
    n = 1 if sampling.n is None else sampling.n
    if not 1 <= n <= MAX_CHOICES:
        message = f"sampling_params.n must be between 1 and {MAX_CHOICES}, not {n}"
        raise BadBodyError(message, param="sampling_params.n", code="invalid_value")
    return n


def _find_constraint(sampling: GenerateSampling) -> FieldConstraint | None:
    return find_sampling_constraint(sampling.regex, sampling.json_schema, sampling.ebnf)


def _sampling_params(
    given: GenerateSampling,
    logprobs: LogprobOptions | None,
    sample: int,
    default_max_tokens: int,
    grammar: StructuredOutputGrammar | None,
) -> SamplingParams:
    return SamplingParams(
        max_tokens=given.max_new_tokens if isinstance(given.max_new_tokens, int) else default_max_tokens,
        min_tokens=given.min_new_tokens or 0,
        temperature=1.0 if given.temperature is None else given.temperature,
        top_p=1.0 if given.top_p is None else given.top_p,
        top_k=-1 if given.top_k is None else given.top_k,
        min_p=given.min_p or 0.0,
        presence_penalty=given.presence_penalty or 0.0,
        frequency_penalty=given.frequency_penalty or 0.0,
        repetition_penalty=1.0 if given.repetition_penalty is None else given.repetition_penalty,
        seed=derive_choice_seed(given.sampling_seed, sample),
        stop=parse_stop_strings(given.stop, param="sampling_params.stop"),
        stop_token_ids=frozenset(given.stop_token_ids or ()),
        ignore_eos=bool(given.ignore_eos),
        logit_bias=given.logit_bias or {},
        logprobs=logprobs.top_num if logprobs else None,
        logprob_ids=logprobs.token_ids if logprobs else (),
        prompt_logprobs=logprobs.top_num if logprobs and logprobs.start_len >= 0 else None,
        prompt_logprobs_start=max(0, logprobs.start_len) if logprobs else 0,
        skip_special_tokens=given.skip_special_tokens is not False,
        include_stop=bool(given.no_stop_trim),
        grammar=grammar,
    )


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
