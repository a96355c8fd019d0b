"""The engine's description of itself: its load, and its model with the requests it can serve."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from radixway.engine.disaggregation import TransferStats
from radixway.engine.errors import ContextLengthError, InvalidRequestError
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.tiers import TierStats


@dataclass(slots=True, frozen=True)
class EngineStats:
    """A snapshot of the engine's load and of what it has done since it started. Sizes are tokens."""

    running: int
    waiting: int
    kv_total: int
    kv_used: int
    """Held by running requests (a shared prefix counted once)."""
    kv_cached: int
    """Cached and unpinned: free when needed."""
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    requests: int
    preemptions: int
    evicted_tokens: int
    paused: bool = False
    """Computation is paused."""
    loading: int = 0
    """Requests that wait for a part of their prefix from a lower tier of the cache."""
    tiers: dict[str, TierStats] = field(default_factory=dict)
    """`device`, and `host` and `disk` where there are such."""
    remote_tokens: int = 0
    departing: int = 0
    transfers: TransferStats | None = None

    @property
    def kv_usage(self) -> float:
        """The share of the KV pool that running requests hold."""
        return self.kv_used / self.kv_total if self.kv_total else 0.0


@dataclass(slots=True, frozen=True)
class ModelInfo:
    """The model that is served, as `/get_model_info` and `/v1/models` describe it."""

    name: str
    path: str
    architecture: str
    dtype: str
    device: str
    vocab_size: int
    context_length: int
    """Most tokens of one request, prompt and answer together."""
    eos_token_ids: frozenset[int]
    parameters: int
    weight_version: str

    def validate_request(self, prompt_ids: Sequence[int], params: SamplingParams, *, has_text: bool) -> None:
        """Raises `InvalidRequestError` naming the field at fault. `has_text`: the engine has a tokenizer."""
        size, limit = len(prompt_ids), self.context_length
        if not size:
            raise InvalidRequestError("prompt", "the prompt has no tokens; it needs at least one")
        if size + (1 if params.max_tokens is None else params.max_tokens) > limit:
            raise ContextLengthError(size, params.max_tokens, limit)
        _check_ids("prompt", prompt_ids, self.vocab_size)
        _check_ids("stop_token_ids", params.stop_token_ids, self.vocab_size)
        _check_ids("logit_bias", params.logit_bias.keys(), self.vocab_size)
        _check_ids("allowed_token_ids", params.allowed_token_ids or (), self.vocab_size)
        for word in params.bad_words:
            _check_ids("bad_words", word, self.vocab_size)
        _check_ids("logprob_ids", params.logprob_ids, self.vocab_size)
        if params.prompt_logprobs is not None and params.prompt_logprobs_start >= size:
            start = params.prompt_logprobs_start
            message = f"prompt_logprobs_start is {start}, but the prompt has only {size} tokens"
            raise InvalidRequestError("prompt_logprobs_start", message)
        for name in ("stop", "stop_regex"):
            if getattr(params, name) and not has_text:
                raise InvalidRequestError(name, f"this engine has no tokenizer, so it cannot see {name}")
        if params.min_tokens and len(self.collect_stop_ids(params)) == self.vocab_size:
            message = f"min_tokens is {params.min_tokens}, but every token is a stop token: leave out some"
            raise InvalidRequestError("min_tokens", message)

    def collect_stop_ids(self, params: SamplingParams) -> frozenset[int]:
        """The tokens that end an answer with `params`."""
        return params.stop_token_ids | (frozenset() if params.ignore_eos else self.eos_token_ids)


def _check_ids(field: str, ids: Collection[int], vocabulary: int) -> None:
    if ids and (min(ids) < 0 or max(ids) >= vocabulary):
        wrong = next(i for i in ids if not 0 <= i < vocabulary)
        message = (
            f"{field} holds an out-of-vocabulary token: Token ID {wrong} is out of vocabulary, "
            f"the model has {vocabulary} tokens"
        )
        raise InvalidRequestError(field, message)
