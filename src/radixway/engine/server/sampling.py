"""Translation of OpenAI's request fields (and vLLM's additions to them) into SamplingParams."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import re2

from radixway.bundled import SMOLLM2_SAMPLING
from radixway.core.http import BadBodyError
from radixway.core.tokenizer import Tokenizer, read_sampling_defaults
from radixway.engine.detokenizer import MAX_STOP_REGEX_SIZE, compile_stop_regex
from radixway.engine.errors import InvalidRequestError
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.http_exchange import to_http_error
from radixway.engine.structured_output import StructuredOutputGrammar

T = TypeVar("T")

MAX_CHOICES = 128  # of one prompt
MAX_ANSWERS = 1024  # of one request
MAX_NAMED_LOGPROBS = 128
_MAX_STOP_STRINGS = 64
_MAX_STOP_PATTERNS = 8  # each is looked for in the text with every token
_MAX_STOP_CHARACTERS = 1_000  # characters
_MAX_ID_DIGITS = 18  # Python refuses to read a number of some thousand digits


class CommonSamplingFields(msgspec.Struct, kw_only=True):
    """The fields that say how tokens are drawn, under the names that all protocols share.

    Null means the default. A protocol with other names for some declares those again with a name.
    """

    n: int | None = None
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
    stop_regex: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    logit_bias: dict[str, float] | None = None
    skip_special_tokens: bool | None = None
    include_stop: bool | None = msgspec.field(name="include_stop_str_in_output", default=None)


@dataclass(slots=True, frozen=True)
class SamplingDefaults:
    """The defaults that a model's authors recommend, for fields that an OpenAI request leaves out."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    max_new_tokens: int | None = None

    @classmethod
    def load_defaults(cls, path: Path, model: str = "") -> "SamplingDefaults":
        """Read generation_config.json in the directory `path`, or that GGUF file; the rest is neutral.

        `model`: as it is configured. SmolLM2's file recommends nothing, so we do.
        """
        recommended = SMOLLM2_SAMPLING if model == "smollm2" else {}
        return cls(**recommended | read_sampling_defaults(path))


@dataclass(slots=True, frozen=True)
class TokenRules:
    """Which tokens an answer may have: `allowed_token_ids` and `bad_words`, as SamplingParams takes them."""

    allowed: frozenset[int] | None
    bad_words: tuple[tuple[int, ...], ...]

    @classmethod
    def parse_rules(
        cls, tokenizer: Tokenizer, allowed: list[int] | None, words: list[str] | None
    ) -> "TokenRules":
        """Encode each of `words`, at the beginning of a text and after a space, as vLLM does.

        Raises BadBodyError (400) for an empty word, or for too many or too long ones.
        """
        encoded: set[tuple[int, ...]] = set()
        for word in _parse_stop_strings(words, "bad_words"):
            if not word.strip():
                raise BadBodyError("bad_words must be made of words that are not empty", param="bad_words")
            for text in (word, f" {word.lstrip()}"):
                encoded.add(tuple(tokenizer.encode(text, add_special_tokens=False)))
        return cls(None if allowed is None else frozenset(allowed), tuple(sorted(encoded)))


def broadcast_values(param: str, given: T | list[T] | None, count: int, default: T) -> list[T]:
    """Return a value for each of `count` prompts, from one for all or a list of as many; `default` without
    any.

    Raises BadBodyError (400) naming `param` for a list of another length."""
    if not isinstance(given, list):
        return [default if given is None else given] * count
    if len(given) != count:
        message = f"{param} has {len(given)} entries for {count} prompts"
        raise BadBodyError(message, param=param)
    return given


def make_sampling_params(
    fields: CommonSamplingFields,
    defaults: SamplingDefaults,
    *,
    max_tokens: int | None,
    logprobs: int | None,
    logprob_ids: tuple[int, ...] = (),
    prompt_logprobs: int | None = None,
    prompt_logprobs_start: int = 0,
    rules: TokenRules | None = None,
    choice: int = 0,
    grammar: StructuredOutputGrammar | None = None,
    place: str = "",
) -> SamplingParams:
    """The parameters of one `choice` of `n`; `place` is where in the body `fields` are.

    Raises InvalidRequestError naming the wrong field, or BadBodyError (400) for too long stop strings.
    """
    return SamplingParams(
        max_tokens=max_tokens,
        min_tokens=fields.min_tokens or 0,
        temperature=_or_default(fields.temperature, defaults.temperature),
        top_p=_or_default(fields.top_p, defaults.top_p),
        top_k=_or_default(fields.top_k, defaults.top_k),
        min_p=_or_default(fields.min_p, defaults.min_p),
        presence_penalty=fields.presence_penalty or 0.0,
        frequency_penalty=fields.frequency_penalty or 0.0,
        repetition_penalty=_or_default(fields.repetition_penalty, defaults.repetition_penalty),
        seed=_choice_seed(fields.seed, choice),
        stop=_parse_stop_strings(fields.stop, f"{place}stop"),
        stop_regex=_parse_stop_patterns(fields.stop_regex, f"{place}stop_regex"),
        stop_token_ids=frozenset(fields.stop_token_ids or ()),
        ignore_eos=bool(fields.ignore_eos),
        logit_bias=_parse_logit_bias(fields.logit_bias or {}, f"{place}logit_bias"),
        allowed_token_ids=rules.allowed if rules else None,
        bad_words=rules.bad_words if rules else (),
        logprobs=logprobs,
        logprob_ids=logprob_ids,
        prompt_logprobs=prompt_logprobs,
        prompt_logprobs_start=prompt_logprobs_start,
        skip_special_tokens=_or_default(fields.skip_special_tokens, True),
        include_stop=bool(fields.include_stop),
        grammar=grammar,
    )


def _choice_seed(seed: int | None, choice: int) -> int | None:
    """The seed of one of n answers: they count on from the given one, modulo 2**64."""
    if seed is None or choice == 0:  # as it was given: whether it is a 64-bit number is still to be checked
        return seed
    return (seed + choice) % 2**64


def check_choice_count(fields: CommonSamplingFields, place: str = "") -> int:
    """Return `n` of `fields`, which are at `place` in the body. Raises BadBodyError (400) out of range."""
    n = 1 if fields.n is None else fields.n
    if not 1 <= n <= MAX_CHOICES:
        raise BadBodyError(f"{place}n must be between 1 and {MAX_CHOICES}, not {n}", param=f"{place}n")
    return n


def _parse_logit_bias(given: Mapping[str, float], param: str) -> dict[int, float]:
    wrong = [name for name in given if not name.isdecimal() or len(name) > _MAX_ID_DIGITS]
    if wrong:
        shown = ", ".join(repr(name[:60]) for name in wrong[:10])
        raise BadBodyError(f"{param} must be keyed by token ids, not {shown}", param=param)
    return {int(name): by for name, by in given.items()}


def _parse_stop_patterns(patterns: str | list[str] | None, param: str) -> tuple[str, ...]:
    parsed = _parse_stop_strings(patterns, param, _MAX_STOP_PATTERNS)
    size = 0
    for pattern in parsed:
        if not pattern:
            raise BadBodyError(f"{param} must be made of patterns that are not empty", param=param)
        try:
            size += compile_stop_regex(pattern).programsize
        except re2.error as error:
            why = error.args[0] if error.args else ""
            detail = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
            raise BadBodyError(f"{param} is no regular expression of RE2: {detail}", param=param) from None
    if size > MAX_STOP_REGEX_SIZE:
        message = (
            f"{param} is too large: RE2 needs {size} instructions, at most {MAX_STOP_REGEX_SIZE} are taken"
        )
        raise BadBodyError(f"{message}; repeat less", param=param)
    return parsed


def _parse_stop_strings(
    stop: str | list[str] | None, param: str, most: int = _MAX_STOP_STRINGS
) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > most or any(len(text) > _MAX_STOP_CHARACTERS for text in stops):
        limits = f"{most} strings of at most {_MAX_STOP_CHARACTERS} characters"
        raise BadBodyError(f"{param} takes at most {limits}", param=param)
    return stops


@contextmanager
def field_names(names: dict[str, str]) -> Iterator[None]:
    """Within this context errors of the engine name fields as the protocol does, by `names`; those that it
    leaves out as OpenAI's endpoints do."""
    try:
        yield
    except InvalidRequestError as error:
        raise to_http_error(error, field_names={"logprob_ids": "logprob_token_ids"} | names) from None


def _or_default(value: Any, default: Any) -> Any:
    return default if value is None else value
