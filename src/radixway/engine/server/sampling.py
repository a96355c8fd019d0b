"""Translation of OpenAI's request fields (and vLLM's additions to them) into SamplingParams."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from radixway.core.http import BadBodyError
from radixway.engine.errors import InvalidRequestError
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.constraint_fields import ConstraintFields
from radixway.engine.server.http_errors import to_http_error
from radixway.engine.structured_output import StructuredOutputGrammar

T = TypeVar("T")

MAX_CHOICES = 128  # of one prompt
MAX_ANSWERS = 1024  # of one request
MAX_LOGPROBS = 20
_MAX_STOP_STRINGS = 64
_MAX_STOP_CHARACTERS = 1_000  # characters


class StreamOptionFields(msgspec.Struct):
    """`stream_options` of a streamed request."""

    include_usage: bool | None = None


class SamplingBody(ConstraintFields, kw_only=True):
    """The fields that chat and completions requests have in common. Null means the default."""

    model: str | None = None
    rid: str | list[str] | None = None
    """What `/abort_request` may call it: SGLang's, one for all prompts or one for each."""
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptionFields | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    logit_bias: dict[int, float] | None = None
    skip_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    return_token_ids: bool | None = None
    cache_salt: str | None = None
    priority: int | None = None
    best_of: int | None = None
    prompt_logprobs: int | None = None
    bootstrap_host: str | list[str] | None = None
    bootstrap_port: int | list[int | None] | None = None
    bootstrap_room: int | list[int] | None = None

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


@dataclass(slots=True, frozen=True)
class SamplingDefaults:
    """The defaults that a model's authors recommend, for fields that an OpenAI request leaves out."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @classmethod
    def load_defaults(cls, model_directory: Path) -> "SamplingDefaults":
        """Read generation_config.json in `model_directory`; neutral values for what it leaves out."""
        try:
            config = json.loads((model_directory / "generation_config.json").read_bytes())
        except (OSError, ValueError):
            return cls()
        if not isinstance(config, dict):
            return cls()
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        given = {name: config[name] for name in names if isinstance(config.get(name), int | float)}
        try:
            SamplingParams(**given)
        except InvalidRequestError:
            return cls()
        return cls(**given)


def broadcast_values(param: str, given: T | list[T] | None, count: int, default: T) -> list[T]:
    """One value for each of `count` prompts, from one for all or a list of as many; `default` without any.

    Raises BadBodyError (400) naming `param` for a list of another length.
    """
    if not isinstance(given, list):
        return [default if given is None else given] * count
    if len(given) != count:
        message = f"{param} has {len(given)} entries for {count} prompts"
        raise BadBodyError(message, param=param, code="invalid_value")
    return given


def make_sampling_params(
    body: SamplingBody,
    defaults: SamplingDefaults,
    *,
    max_tokens: int | None,
    logprobs: int | None,
    prompt_logprobs: int | None = None,
    choice: int = 0,
    grammar: StructuredOutputGrammar | None = None,
) -> SamplingParams:
    """The parameters of one `choice` of `n`. Raises InvalidRequestError naming the wrong field."""
    return SamplingParams(
        max_tokens=max_tokens,
        min_tokens=body.min_tokens or 0,
        temperature=_or_default(body.temperature, defaults.temperature),
        top_p=_or_default(body.top_p, defaults.top_p),
        top_k=_or_default(body.top_k, defaults.top_k),
        min_p=_or_default(body.min_p, defaults.min_p),
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=_or_default(body.repetition_penalty, defaults.repetition_penalty),
        seed=derive_choice_seed(body.seed, choice),
        stop=parse_stop_strings(body.stop),
        stop_token_ids=frozenset(body.stop_token_ids or ()),
        ignore_eos=bool(body.ignore_eos),
        logit_bias=body.logit_bias or {},
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        skip_special_tokens=_or_default(body.skip_special_tokens, True),
        include_stop=bool(body.include_stop_str_in_output),
        grammar=grammar,
    )


def derive_choice_seed(seed: int | None, choice: int) -> int | None:
    """The seed of one of n answers: they count on from the given one, modulo 2**64."""
    if seed is None or choice == 0:  # as it was given: whether it is a 64-bit number is still to be checked
        return seed
    return (seed + choice) % 2**64


def check_choices(body: SamplingBody) -> int:
    """Return `n` of `body`. Raises BadBodyError (400) if it is out of range or a field is not supported."""
    n = 1 if body.n is None else body.n
    if not 1 <= n <= MAX_CHOICES:
        raise BadBodyError(f"n must be between 1 and {MAX_CHOICES}, not {n}", param="n", code="invalid_value")
    if body.best_of is not None and body.best_of != n:
        raise unsupported_field_error("best_of", "other than n")
    if body.stream_options is not None and not body.stream:
        message = "stream_options is for streams only: give stream: true, or leave it out"
        raise BadBodyError(message, param="stream_options", code="invalid_value")
    check_logprobs("prompt_logprobs", body.prompt_logprobs)
    if body.prompt_logprobs is not None and body.stream:
        raise unsupported_field_error("prompt_logprobs", "in a stream")
    return n


def check_logprobs(name: str, count: int | None) -> None:
    """Raises BadBodyError (400), naming field `name`, if `count` alternatives per token are too many."""
    if count is not None and not 0 <= count <= MAX_LOGPROBS:
        message = f"{name} must be between 0 and {MAX_LOGPROBS}, not {count}"
        raise BadBodyError(message, param=name, code="invalid_value")


def parse_stop_strings(stop: str | list[str] | None, *, param: str = "stop") -> tuple[str, ...]:
    """Return `stop` as a tuple. Raises BadBodyError (400), naming `param`, beyond the limits."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > _MAX_STOP_STRINGS or any(len(text) > _MAX_STOP_CHARACTERS for text in stops):
        message = (
            f"{param} takes at most {_MAX_STOP_STRINGS} strings of at most {_MAX_STOP_CHARACTERS} characters"
        )
        raise BadBodyError(message, param=param, code="invalid_value")
    return stops


def unsupported_field_error(param: str, what: str = "") -> BadBodyError:
    """An error for field `param`, which this engine knows but cannot serve."""
    return BadBodyError(
        f"{param} {what} is not supported".replace("  ", " "), param=param, code="unsupported"
    )


@contextmanager
def field_names(names: dict[str, str]) -> Iterator[None]:
    """Within this context errors of the engine name fields as the protocol does, by `names`."""
    try:
        yield
    except InvalidRequestError as error:
        raise to_http_error(error, field_names=names) from None


def _or_default(value: Any, default: Any) -> Any:
    return default if value is None else value
