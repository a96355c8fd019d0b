"""`SamplingParams`: how a client wants one prompt continued."""

from dataclasses import dataclass, field

from radixway.engine.errors import InvalidRequestError
from radixway.engine.structured_output import StructuredOutputGrammar


@dataclass(slots=True, frozen=True, kw_only=True)
class SamplingParams:
    """A request's sampling parameters. Raises `InvalidRequestError` naming the wrong field."""

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
    stop_regex: tuple[str, ...] = ()
    """RE2 patterns, a match of which ends the answer; the match stays in the text, as in SGLang."""
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    logit_bias: dict[int, float] = field(default_factory=dict)
    """Added to the logit of each named token."""
    allowed_token_ids: frozenset[int] | None = None
    """The only tokens that may be sampled; None: all. End-of-sequence is one of them only if it is named."""
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Sequences of tokens, none of which is ever completed within the answer."""
    logprobs: int | None = None
    """None: none; 0: the sampled token's; k: also those of the k most likely tokens."""
    logprob_ids: tuple[int, ...] = ()
    """Tokens whose log-probabilities are given wherever others' are."""
    prompt_logprobs: int | None = None
    """As `logprobs`, for prompt tokens."""
    prompt_logprobs_start: int = 0
    """The prompt's tokens after this one are scored; those before it may come from the cache."""
    skip_special_tokens: bool = True
    include_stop: bool = False
    """Keep the matched stop (string or token) in the text: SGLang's `no_stop_trim`."""
    grammar: StructuredOutputGrammar | None = None
    """Grammar of the answer, which ends as soon as nothing may follow."""

    edits_logits: bool = field(init=False, default=False, repr=False, compare=False)
    """True if penalties, biases or bans change the logits of every step; set here, read at each."""

    @property
    def greedy(self) -> bool:
        """True if the most likely token is always taken."""
        return self.temperature < 1e-5

    @property
    def is_penalised(self) -> bool:
        """True if tokens that were seen before are penalised."""
        return not (self.presence_penalty == self.frequency_penalty == 0 and self.repetition_penalty == 1)

    def __post_init__(self) -> None:
        max_tokens, biases = self.max_tokens, self.logit_bias.values()
        bounds = [
            ("max_tokens", max_tokens is None or max_tokens >= 0, "at least 0"),
            ("min_tokens", self.min_tokens >= 0, "at least 0"),
            (
                "min_tokens",
                max_tokens is None or self.min_tokens <= max_tokens,
                f"at most max_tokens ({max_tokens})",
            ),
            ("temperature", 0 <= self.temperature <= 100, "in [0, 100]"),
            ("top_p", 1e-6 <= self.top_p <= 1, "in [1e-6, 1]"),
            ("top_k", -1 <= self.top_k < 2**31, "-1 (all), 0 (all) or above, below 2**31"),
            ("min_p", 0 <= self.min_p <= 1, "in [0, 1]"),
            ("presence_penalty", -2 <= self.presence_penalty <= 2, "in [-2, 2]"),
            ("frequency_penalty", -2 <= self.frequency_penalty <= 2, "in [-2, 2]"),
            ("repetition_penalty", 0.01 <= self.repetition_penalty <= 100, "in [0.01, 100]"),
            ("seed", self.seed is None or -(2**63) <= self.seed < 2**64, "a 64-bit integer"),
            ("stop", all(self.stop), "made of non-empty strings"),
            ("stop_token_ids", all(token >= 0 for token in self.stop_token_ids), "ids >= 0"),
            ("logit_bias", all(token >= 0 for token in self.logit_bias), "keyed by ids >= 0"),
            ("logit_bias", all(abs(by) <= 1e4 for by in biases), "made of biases of at most 10,000"),
            ("allowed_token_ids", self.allowed_token_ids != frozenset(), "null or at least one id"),
            ("bad_words", all(self.bad_words), "made of words with at least one token"),
            ("logprobs", self.logprobs is None or self.logprobs >= 0, "at least 0"),
            (
                "prompt_logprobs",
                self.prompt_logprobs is None or self.prompt_logprobs >= 0,
                "at least 0",
            ),
            ("logprob_ids", len(self.logprob_ids) <= 100, "at most 100 ids"),
            ("prompt_logprobs_start", self.prompt_logprobs_start >= 0, "at least 0"),
        ]
        for name, holds, bound in bounds:
            if not holds:
                shown = {"logprob_ids": len(self.logprob_ids), "stop_token_ids": set(self.stop_token_ids)}
                value = shown.get(name, getattr(self, name))
                raise InvalidRequestError(name, f"{name} must be {bound}, not {value!r}")
        is_edited = bool(self.is_penalised or self.logit_bias or self.bad_words)
        object.__setattr__(self, "edits_logits", is_edited or self.allowed_token_ids is not None)
