"""`SamplingParams`: how a client wants one prompt continued."""

from dataclasses import dataclass, field

from radixway.engine.errors import InvalidRequestError
from radixway.engine.structured_output import StructuredOutputGrammar


@dataclass(slots=True, frozen=True, kw_only=True)
class SamplingParams:
    """One request's sampling parameters. Raises `InvalidRequestError` naming the wrong field."""

    max_tokens: int | None = None
    """Most tokens to sample; None: as many as the context holds."""
    min_tokens: int = 0
    """Before this many, end-of-sequence and stop ids cannot be sampled and stop strings do not count."""
    temperature: float = 1.0
    """0 is greedy: the largest logit, the lowest id on a tie (as is less than 1e-5, which would overflow)."""
    top_p: float = 1.0
    """Keep the fewest tokens that together are this likely."""
    top_k: int = -1
    """Keep the k most likely tokens; 0 or -1 keeps all."""
    min_p: float = 0.0
    """Drop tokens less likely than `min_p` times the most likely one."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    """The same seed, prompt and parameters give the same tokens, whatever else is in the batch.

    Signed and unsigned 64-bit numbers are taken; they count modulo 2**64.
    """
    stop: tuple[str, ...] = ()
    """Text that ends the answer; it is cut from the text unless `include_stop`."""
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    logit_bias: dict[int, float] = field(default_factory=dict)
    """Added to the logit of each named token."""
    logprobs: int | None = None
    """None: none; 0: the sampled token's; k: also those of the k most likely tokens."""
    logprob_ids: tuple[int, ...] = ()
    """Tokens whose log-probabilities are given wherever others' are."""
    prompt_logprobs: int | None = None
    """As `logprobs`, but of the tokens of the prompt."""
    prompt_logprobs_start: int = 0
    """The prompt's tokens after this one are scored; those before it may come from the cache."""
    skip_special_tokens: bool = True
    include_stop: bool = False
    """Keep the matched stop (string or token) in the text: SGLang's `no_stop_trim`."""
    grammar: StructuredOutputGrammar | None = None
    """What the answer must look like; it ends as soon as nothing could follow."""

    @property
    def greedy(self) -> bool:
        """True if the most likely token is always taken."""
        return self.temperature < 1e-5

    def __post_init__(self) -> None:
        _require_bound(
            self.max_tokens is None or self.max_tokens >= 0, "max_tokens", self.max_tokens, "at least 0"
        )
        _require_bound(self.min_tokens >= 0, "min_tokens", self.min_tokens, "at least 0")
        if self.max_tokens is not None:
            most = f"at most max_tokens ({self.max_tokens})"
            _require_bound(self.min_tokens <= self.max_tokens, "min_tokens", self.min_tokens, most)
        _require_bound(0 <= self.temperature <= 100, "temperature", self.temperature, "in [0, 100]")
        _require_bound(1e-6 <= self.top_p <= 1, "top_p", self.top_p, "in [1e-6, 1]")
        _require_bound(
            -1 <= self.top_k < 2**31, "top_k", self.top_k, "-1 (all), 0 (all) or above, below 2**31"
        )
        _require_bound(0 <= self.min_p <= 1, "min_p", self.min_p, "in [0, 1]")
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            _require_bound(-2 <= value <= 2, name, value, "in [-2, 2]")
        repetition = self.repetition_penalty
        _require_bound(0.01 <= repetition <= 100, "repetition_penalty", repetition, "in [0.01, 100]")
        _require_bound(
            self.seed is None or -(2**63) <= self.seed < 2**64, "seed", self.seed, "a 64-bit integer"
        )
        _require_bound(all(self.stop), "stop", self.stop, "made of non-empty strings")
        _require_bound(
            all(t >= 0 for t in self.stop_token_ids), "stop_token_ids", set(self.stop_token_ids), "ids >= 0"
        )
        _require_bound(
            all(i >= 0 for i in self.logit_bias), "logit_bias", self.logit_bias, "keyed by ids >= 0"
        )
        finite = all(abs(b) <= 1e4 for b in self.logit_bias.values())
        _require_bound(finite, "logit_bias", self.logit_bias, "made of biases of at most 10,000")
        for name in ("logprobs", "prompt_logprobs"):
            most = getattr(self, name)
            _require_bound(most is None or 0 <= most <= 100, name, most, "in [0, 100]")
        _require_bound(len(self.logprob_ids) <= 100, "logprob_ids", len(self.logprob_ids), "at most 100 ids")
        start = self.prompt_logprobs_start
        _require_bound(start >= 0, "prompt_logprobs_start", start, "at least 0")


def _require_bound(holds: bool, name: str, value: object, bound: str) -> None:
    if not holds:
        raise InvalidRequestError(name, f"{name} must be {bound}, not {value!r}")
