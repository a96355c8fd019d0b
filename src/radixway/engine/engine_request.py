"""What the engine is asked and what it answers: plain data, no behaviour beyond its own invariants.

A `EngineRequest` is one idea: a token array, a page list and a position in the tree.

    tokens   [ prompt ................ | sampled ....... ]
    KV       [ in the tree | own pages | not computed yet ]
             0          shared      computed      len(tokens)

One step advances a request by `k` tokens; if that reaches the end of `tokens`, one more is sampled. Decoding
is k = 1, a chunk of prefill is k > 1, and a preempted request is one whose `computed` was set back to 0:
there are no flags.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from radixway.engine.errors import InvalidRequestError

if TYPE_CHECKING:
    from radixway.core.radix import PrefixMatch, RadixNode
    from radixway.engine.disaggregation import BootstrapRoom, KVSender
    from radixway.engine.kv_cache_manager import PageSpan
    from radixway.engine.sampler import LogitEdits, PenaltyState
    from radixway.engine.structured_output import StructuredOutputGrammar, TokenMatcher


@dataclass(slots=True, frozen=True, kw_only=True)
class SamplingParams:
    """How to continue one prompt. Raises `InvalidRequestError` (a ValueError) naming the field that is
    wrong.
    """

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
    grammar: "StructuredOutputGrammar | None" = None
    """What the answer must look like; it ends as soon as nothing could follow."""

    @property
    def greedy(self) -> bool:
        """Whether nothing is left to chance."""
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


@dataclass(slots=True, frozen=True)
class FinishReason:
    """Why an answer ended: `stop` (at the token id or string in `matched`), `length`, `abort` (`message`)."""

    type: Literal["stop", "length", "abort"]
    matched: int | str | None = None
    message: str | None = None


@dataclass(slots=True, frozen=True)
class TokenLogprob:
    """The natural-log probability of one token under the model itself.

    Taken from the plain log-softmax of the logits, before penalties, bias, temperature and truncation (vLLM's
    default, `raw_logprobs`): it says what the model thought, not what the sampler made of it.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    """The most likely (token id, logprob) pairs, most likely first; as many as `SamplingParams.logprobs`."""
    named: tuple[tuple[int, float], ...] = ()
    """(token id, logprob) of each of `SamplingParams.logprob_ids`."""
    rank: int = 0
    """1 for the most likely token; 0 where it was not counted, as for sampled ones."""


@dataclass(slots=True)
class RequestOutput:
    """What one step added to one request: concatenate `token_ids`, `logprobs` and `text` over a stream."""

    request_id: str
    token_ids: list[int]
    """The stop token, if one ended the answer, is among them (but not in `text`)."""
    logprobs: list[TokenLogprob]
    text: str
    finish: FinishReason | None
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens whose KV was found in the cache when the request was first admitted."""
    completion_tokens: int
    """Tokens sampled so far, those of this delta included."""
    weight_version: str
    """Of the weights that made its last token."""
    weight_changes: tuple[tuple[int, str], ...] = ()
    """(first token, version) for each run of sampled tokens that one version made."""
    prompt_logprobs: Sequence[TokenLogprob] = ()
    """Of the prompt's tokens after `SamplingParams.prompt_logprobs_start`, all with the first output."""
    host_tokens: int = 0
    """Of the cached tokens, those that came up from host memory."""
    disk_tokens: int = 0
    """Of the cached tokens, those that came up from disk."""
    remote_tokens: int = 0
    """Prompt tokens, none of the cached ones, whose KV came from a prefill engine."""


class OutputTextStream(Protocol):
    """One request's tokens as text, as they come, in the engine thread. `text.AnswerText` is the real one."""

    @property
    def matched_stop(self) -> str | None:
        """The stop string that ended the text, once one has."""

    def feed(self, token_ids: Sequence[int]) -> str:
        """Text that is now certain: whole characters, and no part of a possible stop string.

        Once a stop string has matched, the text up to it has been given out and `matched` is set.
        """

    def flush(self) -> str:
        """What was still held back; no more tokens will come."""


@dataclass(slots=True, eq=False, kw_only=True)
class EngineRequest:
    """One request inside the engine. Only the scheduler and the cache move its position."""

    id: str
    tokens: "array[int]"
    """int32: the prompt, then every sampled token."""
    params: SamplingParams
    namespace: str = ""
    """Requests share cached prefixes only within one namespace (`cache_salt`, LoRA)."""
    epoch: str = ""
    """What its namespace begins with, to keep it from KV that other weights computed."""
    priority: int = 0
    """Higher is admitted earlier, preempted later and, with eviction by priority, stays cached longer."""
    arrival: int = 0
    """Place in the order of submission (a logical clock)."""
    prompt_len: int = 0
    max_len: int = 0
    """`len(tokens)` at which the answer ends by length."""
    stop_ids: frozenset[int] = frozenset()
    """Token ids that end the answer: those asked for and, unless ignored, end-of-sequence."""
    seed: int = 0
    """`params.seed`, or one drawn for it."""
    text: OutputTextStream | None = None

    num_computed_tokens: int = 0
    """tokens[:computed] have their KV in `pages`."""
    num_shared_tokens: int = 0
    """tokens[:shared] belong to the tree (a whole number of pages, pinned through `node`)."""
    pages: "array[int]" = field(default_factory=lambda: array("i"))
    """Ids of the pool's pages that hold tokens[:computed], and room for what this step computes."""
    node: "RadixNode[bytes, PageSpan] | None" = None
    """The deepest tree node it pins; None while it waits."""
    key: bytes = b""
    """Its `reusable` tokens, as the tree has them, while it waits."""
    match: "PrefixMatch[bytes, PageSpan] | None" = None
    """Where the cache last found its prefix, while it waits."""
    times_passed: int = 0
    """How many requests that came later were admitted before it."""
    cached_tokens: int = -1
    """See `RequestOutput.cached_tokens`; -1 until first admitted."""
    host_tokens: int = 0
    """Of the cached tokens, those that came up from host memory."""
    disk_tokens: int = 0
    """Of the cached tokens, those that came up from disk."""
    digests: tuple[bytes, bytes] = (b"", b"")
    """What the disk tier calls its pages, and the seed that this was worked out from."""
    remote_tokens: int = 0
    """Prompt tokens whose KV came from a prefill engine; they are not among the cached ones."""
    room: "BootstrapRoom | None" = None
    """Where another engine prefills for it, until it has asked there; or is prefilled for."""
    kv_sender: "KVSender | None" = None
    """In a prefill engine: its KV's way out."""
    penalty_state: "PenaltyState | None" = None
    """What the sampler remembers for penalties."""
    logit_edits: "LogitEdits | None" = None
    """Its `logit_bias` and stop ids, as the sampler uses them."""
    scored: int = 0
    """The first position whose logits are still wanted for `prompt_logprobs`; `prompt_len - 1` if none is."""
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    """Scored, and not given out yet."""
    weight_changes: tuple[tuple[int, str], ...] = ()
    """See `RequestOutput.weight_changes`."""
    matcher: "TokenMatcher | None" = None
    """Where its answer stands in `params.grammar`; all sampled tokens have been accepted."""
    finish: FinishReason | None = None
    begun_at: float = 0.0
    """When its first tokens were computed, as `perf_counter` reads; 0 before that. The next two likewise."""
    first_token_at: float = 0.0
    ended_at: float = 0.0

    def __post_init__(self) -> None:
        self.prompt_len = self.prompt_len or len(self.tokens)
        self.max_len = self.max_len or self.prompt_len + (self.params.max_tokens or 0)
        self.reset_scoring()

    def reset_scoring(self) -> None:
        """Forget what has been scored of the prompt."""
        wanted = self.params.prompt_logprobs is not None
        self.scored = self.params.prompt_logprobs_start if wanted else self.prompt_len - 1
        self.prompt_logprobs = []

    def start_epoch(self, epoch: str) -> None:
        """Be computed, from its beginning, with the weights of `epoch`. It must not be running."""
        self.namespace = epoch + self.namespace.removeprefix(self.epoch)
        self.epoch = epoch
        self.key, self.match = b"", None
        if self.is_being_scored:
            self.reset_scoring()

    @property
    def is_being_scored(self) -> bool:
        """Whether `prompt_logprobs` are wanted of it and not complete."""
        return self.scored < self.prompt_len - 1

    @property
    def num_reusable_tokens(self) -> int:
        """How many of its first tokens may have their KV from the cache.

        Not the last one, nor any whose logits are still wanted.
        """
        return self.scored if self.is_being_scored else len(self.tokens) - 1

    @property
    def completion_tokens(self) -> int:
        """Tokens sampled so far."""
        return len(self.tokens) - self.prompt_len

    @property
    def num_remaining_tokens(self) -> int:
        """Tokens that still need KV: 1 while decoding, more while (re)computing a prompt."""
        return len(self.tokens) - self.num_computed_tokens

    @property
    def schedule_rank(self) -> tuple[int, int]:
        """Sorts the requests that come first to the front: by priority, then by arrival."""
        return -self.priority, self.arrival
