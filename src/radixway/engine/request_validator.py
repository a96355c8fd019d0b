"""Whether a request can ever be served by this model."""

from collections.abc import Collection, Sequence

from radixway.engine.engine_info import ModelInfo
from radixway.engine.engine_request import SamplingParams
from radixway.engine.errors import ContextLengthError, InvalidRequestError


def validate_request(
    prompt_ids: Sequence[int], params: SamplingParams, info: ModelInfo, *, has_text: bool
) -> None:
    """Raises `InvalidRequestError` naming the field at fault. `has_text`: the engine has a tokenizer."""
    size, limit = len(prompt_ids), info.context_length
    if not size:
        raise InvalidRequestError("prompt", "the prompt has no tokens; it needs at least one")
    if size + (1 if params.max_tokens is None else params.max_tokens) > limit:
        raise ContextLengthError(size, params.max_tokens, limit)
    _check_ids("prompt", prompt_ids, info.vocab_size)
    _check_ids("stop_token_ids", params.stop_token_ids, info.vocab_size)
    _check_ids("logit_bias", params.logit_bias.keys(), info.vocab_size)
    _check_ids("logprob_ids", params.logprob_ids, info.vocab_size)
    if params.prompt_logprobs is not None and params.prompt_logprobs_start >= size:
        start = params.prompt_logprobs_start
        message = f"prompt_logprobs_start is {start}, but the prompt has only {size} tokens"
        raise InvalidRequestError("prompt_logprobs_start", message)
    if params.stop and not has_text:
        raise InvalidRequestError("stop", "this engine has no tokenizer, so it cannot see stop strings")
    if params.min_tokens and len(collect_stop_ids(params, info)) == info.vocab_size:
        message = f"min_tokens is {params.min_tokens}, but every token is a stop token: leave out some"
        raise InvalidRequestError("min_tokens", message)


def collect_stop_ids(params: SamplingParams, info: ModelInfo) -> frozenset[int]:
    """The tokens that end an answer."""
    return params.stop_token_ids | (frozenset() if params.ignore_eos else info.eos_token_ids)


def _check_ids(field: str, ids: Collection[int], vocabulary: int) -> None:
    """Raises `InvalidRequestError` for an id the model does not have."""
    if ids and (min(ids) < 0 or max(ids) >= vocabulary):
        wrong = next(i for i in ids if not 0 <= i < vocabulary)
        raise InvalidRequestError(
            field, f"{field} holds {wrong}, which is not among the model's {vocabulary} tokens"
        )
