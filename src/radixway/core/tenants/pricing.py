"""Prices of tokens by model, and estimates of usage that are reserved until usage is known."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from radixway.core.config import ModelPricing
from radixway.core.pipeline import Request, TenantPolicy, TokenUsage

PricingOf = Callable[[str], ModelPricing | None]
DearestPrice = Callable[[str | None, TenantPolicy, str], ModelPricing | None]
"""Returns what a request for a model costs its caller at most in a currency; None: nothing."""


class TokenCost(NamedTuple):
    """A cost in a currency; without a price it cost nothing, in no currency."""

    cost: float = 0.0
    currency: str = ""


_NO_COST = TokenCost()


class PriceList:
    """Prices by model name or pattern, the first that matches; else the semantic layer's."""

    def __init__(self, pricing: Mapping[str, ModelPricing], fallback: PricingOf = lambda model: None) -> None:
        self._pricing = pricing
        self._fallback = fallback

    def cost_of(self, model: str, prompt_tokens: int, completion_tokens: int) -> TokenCost:
        """Return the cost of `prompt_tokens` and `completion_tokens` of `model`."""
        pricing = self.pricing_of(model)
        if pricing is None:
            return _NO_COST
        return TokenCost(pricing.cost(prompt_tokens, completion_tokens), pricing.currency)

    def pricing_of(self, model: str) -> ModelPricing | None:
        """Return the prices of `model`, if it has any."""
        pricing = self._pricing.get(model)
        if pricing is not None:
            return pricing
        if not self._pricing:
            return self._fallback(model)
        fitting = (pricing for pattern, pricing in self._pricing.items() if fnmatchcase(model, pattern))
        return next(fitting, None) or self._fallback(model)


BYTES_PER_TOKEN = 4
USUAL_COMPLETION_TOKENS = 256
"""Assumed tokens of an unlimited answer."""
_MAX_PROMPT_TOKENS = 32_768
"""Bodies may hold images, whose bytes say nothing of tokens."""

_MAX_TOKENS = 10**12
"""Above any limit, and safe to multiply by a price."""


class _RequestedLimits(msgspec.Struct):
    # Wrong types are the endpoint's, or the worker's, to refuse: what makes sense is counted all the same.
    max_tokens: Any = None
    max_completion_tokens: Any = None
    n: Any = None
    best_of: Any = None
    prompt: Any = None
    text: Any = None
    input_ids: msgspec.Raw = msgspec.Raw(b"")
    sampling_params: Any = None


_read = msgspec.json.Decoder(_RequestedLimits).decode


def estimate_request(request: Request) -> tuple[int, int]:
    """Estimate the tokens of prompts and answers of `request`, as `estimate_usage`, by what its endpoint read
    of the body if that tells."""
    parsed = request.parsed
    if parsed is None or parsed.answers is None or parsed.max_answer_tokens is None:
        if request.form is not None:
            return _estimate_prompt_tokens(request.text_bytes), 0
        return estimate_usage(request.raw, generates=request.endpoint.generates)
    answers = (parsed.max_answer_tokens or USUAL_COMPLETION_TOKENS) * parsed.answers
    prompt = request.text_bytes // BYTES_PER_TOKEN
    return (
        prompt if prompt < _MAX_PROMPT_TOKENS else _MAX_PROMPT_TOKENS,
        answers if answers < _MAX_TOKENS else _MAX_TOKENS,
    )


def estimate_usage(raw: bytes, *, generates: bool = True) -> tuple[int, int]:
    """Estimate the tokens of a body's prompts, by bytes, and of answers, as many as it asks for at most.

    `generates`: whether a model writes the reply; else there are no tokens of answers.
    """
    if not generates:
        return _estimate_prompt_tokens(len(raw)), 0
    try:
        limits = _read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        limits = _RequestedLimits()
    longest, copies = 0, max(_bounded_count(limits.n), _bounded_count(limits.best_of), 1)
    given = limits.sampling_params
    if given is not None:
        for params in given if isinstance(given, list) else [given]:
            if isinstance(params, dict):
                longest = max(longest, _bounded_count(params.get("max_new_tokens")))
                copies = max(copies, _bounded_count(params.get("n")))
    max_tokens = (
        max(_bounded_count(limits.max_completion_tokens), _bounded_count(limits.max_tokens)) or longest
    )
    prompts = max(_count_prompts(limits.prompt), _count_prompts(limits.text))
    if limits.input_ids:
        prompts = max(prompts, bytes(limits.input_ids).count(b"[") - 1)
    answers = min((max_tokens or USUAL_COMPLETION_TOKENS) * copies * prompts, _MAX_TOKENS)
    return _estimate_prompt_tokens(len(raw)), answers


def estimate_usage_by_size(request: Request, answer_bytes: int) -> TokenUsage:
    """Estimate a request whose worker reported nothing: the prompt as routing counted it, the rest by
    bytes."""
    answer = answer_bytes // BYTES_PER_TOKEN if request.endpoint.generates else 0
    return TokenUsage(count_prompt_tokens(request), answer, estimated=True)


def count_prompt_tokens(request: Request) -> int:
    """Return the tokens of the prompt as routing counted them, or else estimated by the bytes of the body."""
    counted = request.routing.prompt_tokens
    return _estimate_prompt_tokens(request.text_bytes) if counted is None else counted


def _estimate_prompt_tokens(text_bytes: int) -> int:
    return min(text_bytes // BYTES_PER_TOKEN, _MAX_PROMPT_TOKENS)


def _count_prompts(prompts: Any) -> int:
    """Count prompts; a list of token ids is one."""
    several = isinstance(prompts, list) and prompts and not isinstance(prompts[0], int)
    return len(prompts) if several else 1


def _bounded_count(value: Any) -> int:
    """Return a bounded count of a body's field, 0 if it is none."""
    if value is None:
        return 0
    return int(min(max(value, 0), _MAX_TOKENS)) if isinstance(value, int | float) else 0
