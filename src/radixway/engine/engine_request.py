"""The engine's requests and outputs: plain data, no behaviour beyond its own invariants.

An `EngineRequest` is one idea: a token array, a page list and a position in the tree.

    tokens   [ prompt ................ | sampled ....... ]
    KV       [ in the tree | own pages | not computed yet ]
             0     num_shared     num_computed     len(tokens)

One step advances a request by `k` tokens; if that reaches the end of `tokens`, one more is sampled. Decoding
is k = 1, a chunk of prefill is k > 1, and a preempted request is one whose `num_computed_tokens` was set back
to 0: there are no flags.
"""

from array import array
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from radixway.core.radix import PrefixMatch, RadixNode
from radixway.engine.page_pool import PageSpan
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.structured_output import TokenMatcher

if TYPE_CHECKING:
    from torch import Tensor

    from radixway.engine.detokenizer import DetokenizedStream


@dataclass(slots=True, frozen=True)
class FinishReason:
    """Why an answer ended: `stop` (at token id or string `matched`), `length`, `abort` (`message`)."""

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
    """A step's output for one request: concatenate `token_ids`, `logprobs` and `text` over a stream."""

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
    """Weight version of its last token."""
    weight_changes: tuple[tuple[int, str], ...] = ()
    """(first token, version) for each run of sampled tokens that one version made."""
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    """Log-probabilities of prompt tokens after `SamplingParams.prompt_logprobs_start`, all with the first
    output."""
    host_tokens: int = 0
    """Cached tokens that came from host memory."""
    disk_tokens: int = 0
    """Cached tokens that came from disk."""
    remote_tokens: int = 0
    """Prompt tokens, none of the cached ones, whose KV came from a prefill engine."""

    def prepend_output(self, earlier: "RequestOutput") -> None:
        """Put `earlier`, what the generation gave before, in front; `earlier` is of no use any more."""
        earlier.token_ids += self.token_ids
        earlier.logprobs += self.logprobs
        earlier.prompt_logprobs += self.prompt_logprobs
        self.token_ids, self.logprobs = earlier.token_ids, earlier.logprobs
        self.prompt_logprobs = earlier.prompt_logprobs
        self.text = earlier.text + self.text

    @property
    def weight_spans(self) -> list[tuple[str, int, int]]:
        """(version, start, end): which version of the weights sampled tokens [start, end), none left out."""
        changes = self.weight_changes or ((0, self.weight_version),)
        ends = [*(start for start, _ in changes[1:]), self.completion_tokens]
        return [(version, start, end) for (start, version), end in zip(changes, ends, strict=True)]


@dataclass(slots=True, frozen=True)
class BootstrapRoom:
    """The meeting point of two engines for one request, under SGLang's names."""

    host: str
    """Host of the prefill engine; an IPv6 address without brackets."""
    port: int
    number: int
    """Number of one request; any client that knows it gets the KV."""


class KVSendHandle(Protocol):
    """The scheduler's view of `KVSender`, whose thread reads a request's pages in a prefill engine."""

    room: int
    """The number of the request's `BootstrapRoom`."""

    @property
    def is_over(self) -> bool:
        """True when no thread reads the request's pages, or will."""

    def hold_pages(self) -> None:
        """The request runs: all that it has computed may be read."""

    def mark_computed(self, layer: int, stop: int) -> None:
        """Tokens [0, stop) have their KV in `layer`."""

    def page_move(self) -> AbstractContextManager[None]:
        """Keep pages from being read within this context, so that they may be exchanged for others."""

    def release_pages(self) -> None:
        """The request gives its pages back and will compute again what was not sent."""


@dataclass(slots=True)
class PenaltyState:
    """Counts of a request's tokens, for penalties; updated instead of counted again."""

    upto: int
    counts: "Tensor"
    """[vocabulary] float32: how often each was sampled."""
    present: "Tensor"
    """[vocabulary] bool: prompt or sampled."""


@dataclass(slots=True, frozen=True)
class LogitEdits:
    """The changes to a request's logits, as indices made once: there may be as many as there are tokens."""

    biased: "Tensor"
    """[n] int64: the tokens of `logit_bias`."""
    by: "Tensor"
    """[n] float32."""
    ends: "Tensor"
    """[stop ids] int64."""
    banned: "Tensor | None"
    """[vocabulary] bool: tokens that are never sampled; None: there are none."""


@dataclass(slots=True, eq=False, kw_only=True)
class EngineRequest:
    """A request inside the engine. Only the scheduler and the cache move its position."""

    id: str
    tokens: "array[int]"
    """int32: the prompt, then every sampled token."""
    params: SamplingParams
    namespace: str = ""
    """Requests share cached prefixes only within one namespace (`cache_salt`, LoRA)."""
    epoch: str = ""
    """Prefix of its namespace, which separates KV of other weights."""
    priority: int = 0
    """Higher is admitted earlier, preempted later and, with eviction by priority, stays cached longer."""
    arrival: int = 0
    """Place in the order of submission (a logical clock)."""
    prompt_len: int = 0
    max_len: int = 0
    """`len(tokens)` at which the answer ends by length."""
    stop_ids: frozenset[int] = frozenset()
    """Token ids that end the answer: requested ones and, unless ignored, end-of-sequence."""
    seed: int = 0
    text: "DetokenizedStream | None" = None

    num_computed_tokens: int = 0
    """tokens[:computed] have their KV in `pages`."""
    num_shared_tokens: int = 0
    """tokens[:shared] belong to the tree (a whole number of pages, pinned through `node`)."""
    pages: "array[int]" = field(default_factory=lambda: array("i"))
    """Ids of the pool's pages that hold tokens[:computed], with space for what this step computes."""
    node: RadixNode[bytes, PageSpan] | None = None
    """The deepest tree node it pins; None while it waits."""
    key: bytes = b""
    """Its first `num_reusable_tokens` as a key of the tree, while it waits."""
    match: PrefixMatch[bytes, PageSpan] | None = None
    """The cache's latest match, while the request waits."""
    times_passed: int = 0
    """How many requests that came later were admitted before it."""
    cached_tokens: int = -1
    """See `RequestOutput.cached_tokens`; -1 until first admitted."""
    host_tokens: int = 0
    disk_tokens: int = 0
    digests: tuple[bytes, bytes] = (b"", b"")
    """The disk tier's digests of its pages, and the seed that they were computed from."""
    remote_tokens: int = 0
    room: BootstrapRoom | None = None
    """The room in which another engine prefills, until that was requested; or the one to prefill for."""
    kv_sender: KVSendHandle | None = None
    """Sender of its KV in a prefill engine."""
    penalty_state: PenaltyState | None = None
    logit_edits: LogitEdits | None = None
    scored: int = 0
    """The first position whose logits are still wanted for `prompt_logprobs`; `prompt_len - 1` if none is."""
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    """Scored, and not given out yet."""
    weight_changes: tuple[tuple[int, str], ...] = ()
    matcher: TokenMatcher | None = None
    """Position of its answer in `params.grammar`; all sampled tokens have been accepted."""
    finish: FinishReason | None = None
    begun_at: float = 0.0
    """Start of its first tokens, as `perf_counter` reads; 0 before that. The next two likewise."""
    first_token_at: float = 0.0
    ended_at: float = 0.0

    def __post_init__(self) -> None:
        self.prompt_len = self.prompt_len or len(self.tokens)
        self.max_len = self.max_len or self.prompt_len + (self.params.max_tokens or 0)
        self.reset_scoring()

    def reset_scoring(self) -> None:
        """Discard the log-probabilities of the prompt that have been computed."""
        wanted = self.params.prompt_logprobs is not None
        self.scored = self.params.prompt_logprobs_start if wanted else self.prompt_len - 1
        self.prompt_logprobs = []

    def start_epoch(self, epoch: str) -> None:
        """Have the request computed again with the weights of `epoch`. It must not be running."""
        self.namespace = epoch + self.namespace.removeprefix(self.epoch)
        self.epoch = epoch
        self.key, self.match = b"", None
        if self.is_being_scored:
            self.reset_scoring()

    @property
    def is_being_scored(self) -> bool:
        """True while `prompt_logprobs` are wanted and not complete."""
        return self.scored < self.prompt_len - 1

    @property
    def num_reusable_tokens(self) -> int:
        """Leading tokens that may come from the cache: not the last, nor any whose logits are wanted."""
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


class ScheduledRequest(NamedTuple):
    """A request's part of a step: compute the KV of its next `tokens` tokens."""

    request: EngineRequest
    tokens: int

    @property
    def reaches_end(self) -> bool:
        """True if it reaches the end of the known tokens, so that the next one can be sampled."""
        return self.tokens == self.request.num_remaining_tokens
