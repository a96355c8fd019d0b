"""The fields that chat and completions requests have in common, and the constraints that some of them make.

Constraints come in OpenAI's, vLLM's (old and new) and SGLang's fields, with one meaning.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from radixway.core.http import BadBodyError
from radixway.core.protocols.request import field_error
from radixway.engine.grammar_compiler import WHITESPACE, OutputConstraint
from radixway.engine.server.sampling import MAX_NAMED_LOGPROBS, check_choice_count
from radixway.engine.server.structural_tags import make_structural_constraint
from radixway.engine.server.unsupported_fields import (
    UnsupportedOpenAIFields,
    refuse_unsupported,
    unsupported_field_error,
)

_MAX_LENGTH_PENALTY = 10
_ANY_OBJECT = '{"type": "object"}'


class StructuredOutputsParams(msgspec.Struct, kw_only=True):
    """vLLM's `structured_outputs`."""

    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: Any = None
    disable_any_whitespace: bool | None = None
    whitespace_pattern: str | None = None
    disable_additional_properties: bool | None = None


class StreamOptionFields(msgspec.Struct):
    """`stream_options` of a streamed request."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    """Give the usage so far in every chunk, where `include_usage` is set too."""


class SamplingBody(UnsupportedOpenAIFields, kw_only=True):
    """The fields that chat and completions requests have in common."""

    model: str | None = None
    rid: str | list[str] | None = None
    """SGLang's id for `/abort_request`, one for all prompts or one for each."""
    request_id: str | None = None
    """vLLM's; `rid` comes before it."""
    extra_key: str | None = None
    """SGLang's namespace of cached prefixes, beside `cache_salt`."""
    stream: bool | None = None
    stream_options: StreamOptionFields | None = None
    max_tokens: int | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    no_stop_trim: bool | None = None
    """SGLang's name of `include_stop_str_in_output`."""
    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    logprob_token_ids: list[int] | None = None
    """Tokens whose log-probabilities are given instead of the most likely ones'."""
    cache_salt: str | None = None
    priority: int | None = None
    best_of: int | None = None
    prompt_logprobs: int | None = None
    use_beam_search: bool | None = None
    """The `n` likeliest answers instead of sampled ones; vLLM's."""
    length_penalty: float | None = None
    """The power of the length by which beams' log-probabilities are divided."""
    bootstrap_host: str | list[str] | None = None
    bootstrap_port: int | list[int | None] | None = None
    bootstrap_room: int | list[int] | None = None
    # Constraints on the answers, of which at most one may be given; see `find_constraint`.
    response_format: dict[str, Any] | None = None
    structured_outputs: StructuredOutputsParams | None = None
    guided_json: Any = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_whitespace_pattern: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    json_schema: Any = None

    @property
    def client_ids(self) -> Sequence[str]:
        """The ids that the client gave the request, or each of its prompts."""
        given = self.request_id if self.rid is None else self.rid
        return given if isinstance(given, list) else [] if given is None else [given]

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        return self.include_usage and bool(self.stream_options and self.stream_options.continuous_usage_stats)


def check_choices(body: SamplingBody, check_logprobs: Callable[[str, int | None], int | None]) -> int:
    """Return `n` of `body`. Raises BadBodyError (400) if it is out of range or a field is not supported.

    `check_logprobs` is the engine's, with its limit."""
    refuse_unsupported(body, UnsupportedOpenAIFields)
    n = check_choice_count(body)
    if body.best_of is not None and body.best_of != n:
        raise unsupported_field_error("best_of", "other than n")
    if not -_MAX_LENGTH_PENALTY <= (body.length_penalty or 0) <= _MAX_LENGTH_PENALTY:
        message = f"length_penalty must be in [{-_MAX_LENGTH_PENALTY}, {_MAX_LENGTH_PENALTY}]"
        raise BadBodyError(message, param="length_penalty")
    if body.length_penalty not in (None, 0, 1) and not body.use_beam_search:
        raise unsupported_field_error("length_penalty", "without use_beam_search")
    if body.stream_options is not None and not body.stream:
        message = "stream_options is for streams only: give stream: true, or leave it out"
        raise BadBodyError(message, param="stream_options")
    if body.seed is not None and not -(2**63) <= body.seed < 2**63:
        bounds = f"greater_than_equal {-(2**63)} and less_than_equal {2**63 - 1}"
        raise BadBodyError(f"seed must be a signed 64-bit integer, {bounds}, not {body.seed}", param="seed")
    body.prompt_logprobs = check_logprobs("prompt_logprobs", body.prompt_logprobs)
    if body.prompt_logprobs is not None and body.stream:
        raise unsupported_field_error("prompt_logprobs", "in a stream")
    if body.no_stop_trim and body.include_stop is None:
        body.include_stop = True
    return n


def check_named_logprobs(body: SamplingBody, *, logprobs: bool) -> None:
    """Raises BadBodyError (400) for too many `logprob_token_ids` in `body`, or any without `logprobs`."""
    ids = body.logprob_token_ids or []
    if ids and not logprobs:
        raise BadBodyError("logprob_token_ids needs logprobs", param="logprob_token_ids")
    if len(ids) > MAX_NAMED_LOGPROBS:
        message = f"logprob_token_ids takes at most {MAX_NAMED_LOGPROBS} tokens, not {len(ids)}"
        raise BadBodyError(message, param="logprob_token_ids")


FieldConstraint = tuple[str, OutputConstraint]
"""The request's field, and its value."""


def find_constraint(body: SamplingBody) -> FieldConstraint | None:
    """The constraint of `body`, if it has one. Raises BadBodyError (400) naming the field at fault."""
    return _require_single([*_from_response_format(body.response_format), *_from_fields(body)])


def find_sampling_constraint(
    regex: str | None, json_schema: Any, ebnf: str | None, structural_tag: Any = None
) -> FieldConstraint | None:
    """The constraint in /generate's `sampling_params`, if it has one of these."""
    found = []
    if regex is not None:
        found.append(("sampling_params.regex", OutputConstraint("regex", regex)))
    if json_schema is not None:
        field = "sampling_params.json_schema"
        found.append((field, make_json_constraint(json_schema, field)))
    if ebnf is not None:
        found.append(("sampling_params.ebnf", OutputConstraint("grammar", ebnf)))
    if structural_tag is not None:
        field = "sampling_params.structural_tag"
        found.append((field, make_structural_constraint(structural_tag, field)))
    return _require_single(found)


def make_json_constraint(
    schema: Any, field: str, *, lenient: bool = False, whitespace: str | None = None
) -> OutputConstraint:
    """A JSON schema, as an object or written out. Raises BadBodyError (400)."""
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError):
            raise field_error(field, "is not JSON") from None
    if not isinstance(schema, Mapping):
        raise field_error(field, "must be a JSON schema, which is an object")
    pattern = WHITESPACE if whitespace is None else whitespace
    return OutputConstraint("json_schema", json.dumps(schema), lenient=lenient, whitespace=pattern)


def _from_response_format(given: dict[str, Any] | None) -> Iterator[FieldConstraint]:
    match given:
        case None | {"type": "text"}:
            return
        case {"type": "json_object"}:
            yield "response_format", OutputConstraint("json_schema", _ANY_OBJECT)
        case {"type": "json_schema", "json_schema": {"schema": schema, **rest}}:
            field = "response_format.json_schema.schema"
            strict = rest.get("strict")
            if not isinstance(strict, bool | None):
                raise field_error("response_format.json_schema.strict", "must be true or false")
            yield field, make_json_constraint(schema, field, lenient=not strict)
        case {"type": "json_schema"}:
            raise field_error("response_format.json_schema.schema", "is missing", code="missing_field")
        case {"type": "structural_tag"}:
            yield "response_format", make_structural_constraint(given, "response_format")
        case {"type": str(kind)}:
            why = f"type {kind[:60]!r} is not supported: use text, json_object, json_schema or structural_tag"
            raise field_error("response_format", why, code="unsupported")
        case _:
            why = "must be text, json_object, json_schema or structural_tag"
            raise field_error("response_format.type", why)


def _from_fields(body: SamplingBody) -> Iterator[FieldConstraint]:
    if body.guided_json is not None:
        whitespace = body.guided_whitespace_pattern
        yield "guided_json", make_json_constraint(body.guided_json, "guided_json", whitespace=whitespace)
    if body.json_schema is not None:
        yield "json_schema", make_json_constraint(body.json_schema, "json_schema")
    if body.guided_choice is not None:
        yield "guided_choice", _choice_constraint(body.guided_choice, "guided_choice")
    for name in ("guided_regex", "regex"):
        if (text := getattr(body, name)) is not None:
            yield name, OutputConstraint("regex", text)
    for name in ("guided_grammar", "ebnf"):
        if (text := getattr(body, name)) is not None:
            yield name, OutputConstraint("grammar", text)
    if body.structured_outputs is not None:
        yield from _from_structured_outputs(body.structured_outputs)


def _from_structured_outputs(given: StructuredOutputsParams) -> Iterator[FieldConstraint]:
    place = "structured_outputs"
    if given.disable_additional_properties:
        raise field_error(f"{place}.disable_additional_properties", "is not supported", code="unsupported")
    whitespace = "" if given.disable_any_whitespace else given.whitespace_pattern
    if given.json is not None:
        yield f"{place}.json", make_json_constraint(given.json, f"{place}.json", whitespace=whitespace)
    if given.json_object:
        field = f"{place}.json_object"
        yield field, make_json_constraint({"type": "object"}, field, whitespace=whitespace)
    if given.choice is not None:
        yield f"{place}.choice", _choice_constraint(given.choice, f"{place}.choice")
    if given.regex is not None:
        yield f"{place}.regex", OutputConstraint("regex", given.regex)
    if given.structural_tag is not None:
        field = f"{place}.structural_tag"
        yield field, make_structural_constraint(given.structural_tag, field)
    if given.grammar is not None:
        yield f"{place}.grammar", OutputConstraint("grammar", given.grammar)


def _choice_constraint(choices: list[str], field: str) -> OutputConstraint:
    if not choices:
        raise field_error(field, "is empty: there is nothing to choose from")
    return OutputConstraint("choice", json.dumps(choices))


def _require_single(found: list[FieldConstraint]) -> FieldConstraint | None:
    if len(found) > 1:
        fields = " and ".join(field for field, _ in found)
        raise field_error(found[1][0], f"{fields} exclude each other: give one constraint")
    return found[0] if found else None
