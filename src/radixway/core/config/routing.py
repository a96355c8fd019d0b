"""The `routing` section: how a worker is chosen, and what happens when all are busy."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from radixway.core.config.base import ConfigSection
from radixway.core.config.policies import ExpectedTimePolicyConfig, PolicyConfig


class QueueConfig(ConfigSection):
    """Requests that wait: every worker of their model is at its limit, or the one they prefer is busy."""

    size: int = Field(default=256, ge=0)
    """Requests that may wait, of all models together. With 0 they are refused at once."""
    order: Literal["shortest_prefill_first", "fcfs", "shortest_uncached_first"] = "shortest_prefill_first"
    """Order of requests of one priority: by arrival plus four times the expected prefill, where that is
    known; by arrival; or fewest tokens to prefill first."""
    hold_s: float = Field(default=10.0, ge=0)
    """How long a request may wait for the worker that it prefers, while that is busy with prefills, before
    it is sent there all the same. Under `expected_time`; 0: not at all."""
    free_below_s: float = Field(default=0.01, ge=0)
    """A worker is free for a request that waits for it once its prefills are expected to take no longer."""
    aging_s: float = Field(default=10.0, gt=0)
    """Seconds of waiting that weigh as much as a step of priority, or as 1,000 uncached tokens more."""
    timeout_s: float = Field(default=60.0, gt=0)
    """How long a request waits before it is refused."""
    most_priority: int = Field(default=10, ge=0)
    """Priorities that clients give are taken to lie between this and its negative."""
    lower_priority_first: bool = False
    """vLLM's sense of `priority`; SGLang's, Dynamo's and our engine's is that higher goes first."""

    @property
    def least_priority(self) -> int:
        """The priority of what goes after everything else."""
        return self.most_priority if self.lower_priority_first else -self.most_priority


class BreakerConfig(ConfigSection):
    """The circuit breaker: a worker that passes its health checks yet fails its requests is asked last."""

    failures_in_row: int = Field(default=2, ge=1)
    """Requests broken in a row, without an answer, that open the breaker."""
    failure_share: float = Field(default=0.5, gt=0, le=1)
    """Share of broken requests and 5xx answers that opens it too …"""
    window_s: float = Field(default=30.0, gt=0)
    """… in a window of so many seconds, which begins with a failure …"""
    least_requests: int = Field(default=10, ge=1)
    """… with at least so many finished requests."""
    open_s: float = Field(default=0.5, gt=0)
    """How long it stays open before one request may probe the worker; doubled by each probe that fails."""
    open_max_s: float = Field(default=60.0, gt=0)
    """The longest that a worker is left alone."""


class HedgeConfig(ConfigSection):
    """A second copy of a request to another worker when the first byte is late."""

    after_s: float | None = Field(default=None, gt=0)
    """Seconds without a first byte after which the copy is sent."""
    after_percentile: float | None = Field(default=None, gt=0, lt=100)
    """The same, learnt: that share of the model's recent requests had their first byte by then."""
    most_share: float = Field(default=0.05, gt=0, le=1)
    """Copies per request, at most."""
    whole_replies: bool = False
    """Also hedge whole replies, whose first byte comes when all work is done."""

    @model_validator(mode="after")
    def _check_delay(self) -> Self:
        if self.after_s is None and self.after_percentile is None:
            raise ValueError(
                "give after_s, after_percentile or both (the first is then used until enough is known)"
            )
        return self


def check_fallbacks(fallbacks: dict[str, str]) -> dict[str, str]:
    """Return `fallbacks`. Raises ValueError if following it from some model comes round again."""
    for first in fallbacks:
        seen = [first]
        while (model := fallbacks.get(seen[-1])) is not None:
            if model in seen:
                raise ValueError(f"the fallbacks go round in a circle: {' → '.join([*seen, model])}")
            seen.append(model)
    return fallbacks


class DisaggregationConfig(ConfigSection):
    """Conditions on which another worker prefills a prompt than the one that answers.

    Not if both of the first two say that little is left to prefill, nor if the third says that it is no
    sooner. The first two are Dynamo's `isl_bounding`, names aside.
    """

    min_uncached_tokens: int = Field(default=2048, ge=0)
    """With fewer tokens to prefill the decode worker prefills them, if …"""
    max_uncached_share: float = Field(default=0.7, ge=0, le=1)
    """… they are also a smaller share of the prompt than this."""
    by_expected_time: bool = True
    """Prefill elsewhere only if the first token is expected sooner, running answers' slowdown counted in."""
    slowdown: float = Field(default=0.05, ge=0)
    """Seconds that a second of prefill costs each answer running there."""


class HealthConfig(ConfigSection):
    """Health checks of workers."""

    interval_s: float = Field(default=2.0, gt=0)
    """Interval of probes."""
    timeout_s: float = Field(default=5.0, gt=0)
    """How long one look may take."""
    failure_threshold: int = Field(default=2, ge=1)
    """Probes in a row that must fail before a worker that answers no probe is taken out."""
    backoff_max_s: float = Field(default=30.0, gt=0)
    """A worker that is down is probed at doubling intervals up to this one."""


def _check_session_header(name: str) -> str:
    if not name.lower().startswith("x-"):
        raise ValueError(f"a session's header must begin with x-, as all that travel on do, not {name!r}")
    return name.lower()


SessionHeader = Annotated[str, AfterValidator(_check_session_header)]


class SessionConfig(ConfigSection):
    """The mark that requests of one conversation share, for the policy `session`: the first of these."""

    headers: tuple[SessionHeader, ...] = ("x-session-id", "x-smg-routing-key")
    """Headers that name a session, in any spelling; not credentials or headers of trusted hops. The second is
    that of SGLang's gateway (SMG)."""
    fields: tuple[str, ...] = ("session_id", "user")
    """Top-level fields of the body."""
    fields_first: bool = False
    """Whether fields go before headers. With `fields: [rid]` it is SMG's `--routing-key-override`."""


class TokenizeConfig(ConfigSection):
    """Tokenizing of prompts, so that they are known by the blocks that workers know them by."""

    threads: int = Field(default=2, ge=1, le=64)
    """Threads that tokenize long prompts."""
    cache_mib: int = Field(default=64, ge=1)
    """Memory for tokens of prompts that may come again, or go on."""
    ask_workers: Literal["followed", "always", "never"] = "followed"
    """When a worker that has `/tokenize` is asked where no tokenizer is at hand: while the KV events of a
    candidate are followed, because without them blocks of text say as much for nothing; always; or never."""
    ask_timeout_s: float = Field(default=0.5, gt=0)
    """How long its answer is waited for."""


class WeightsConfig(ConfigSection):
    """Workers that may answer after weights were updated through the gateway (docs/trajectories.md)."""

    gate: bool = True
    """A worker whose version is not the one that the fleet was updated to gets no requests until it is."""
    require_version: bool = False
    """Neither does one that does not say its version, once the fleet was updated to one."""
    update_timeout_s: float = Field(default=600, gt=0)
    """How long a worker may take for a call that goes to all of them."""


Fallbacks = Annotated[dict[str, str], AfterValidator(check_fallbacks)]


class ModelSplit(ConfigSection):
    """Several models that one alias stands for, each for its share of conversations."""

    split: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(min_length=1)
    """By model, its weight: `{qwen-7b: 90, gpt-5-mini: 10}`. A session keeps its model."""

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if not sum(self.split.values()):
            raise ValueError("split: one of the weights must be above 0")
        return self


def _spell_out_split(value: Any) -> Any:
    return value if isinstance(value, str | ModelSplit) else ModelSplit.model_validate(value)


AliasTarget = Annotated[str | ModelSplit, BeforeValidator(_spell_out_split)]


def check_aliases(aliases: dict[str, str | ModelSplit]) -> dict[str, str | ModelSplit]:
    """Return `aliases`. Raises ValueError for an empty name, or one that stands for a pattern."""
    for alias, target in aliases.items():
        for model in [target] if isinstance(target, str) else target.split:
            if not alias or not model:
                raise ValueError("an alias and the model that it stands for need names")
            if any(sign in model for sign in "*?["):
                raise ValueError(f"{alias!r} must stand for one model, not for the pattern {model!r}")
    return aliases


ModelAliases = Annotated[dict[str, AliasTarget], AfterValidator(check_aliases)]


class OverflowConfig(ConfigSection):
    """When requests for models of own workers go to hosted ones."""

    to: str = Field(default="hosted", min_length=1, max_length=256)
    """`hosted`: hosted workers of the same model. Else the model that answers in its place."""
    queue_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Seconds in queues, expected or waited, beyond which a request is hosted. None: only where no own
    worker can answer."""


class RoutingConfig(ConfigSection):
    """Choice of a worker."""

    policy: PolicyConfig = ExpectedTimePolicyConfig()
    """How a worker is chosen: a name, `name:parameter=value`, or a mapping."""
    model_policies: dict[str, PolicyConfig] = Field(default_factory=dict)
    """Another policy for single models."""
    model_aliases: ModelAliases = Field(default={"claude-*": "default"})
    """Names, or patterns with `*` and `?`, and the model that each stands for where no worker serves one of
    that name, or a `split` of several. `default` stands for the default model, as in requests."""
    block_size: int = Field(default=16, ge=1, le=4096)
    """Tokens a block: the grain in which prefixes are known."""
    shortlist: int = Field(default=32, ge=8)
    """Longer lists of candidates are cut to those that hold most of the prompt, and some others."""
    text_block_bytes: int = Field(default=512, ge=16, le=65536)
    """Bytes a block where prompts cannot be tokenized here."""
    reservation_ttl_s: float = Field(default=600, gt=0)
    """How long a place reserved by `/select_and_reserve` is held when nothing is heard of it."""
    most_reservations: int = Field(default=50_000, ge=1)
    """Places that may be reserved at a time; more are refused with 429."""
    tokenizers: dict[str, str] = Field(default_factory=dict)
    """By model, the directory or hub id of its tokenizer; needs radixway[tokenizers]. For a model not named
    here, the directory that its worker names is read, if it is on this machine."""
    tokenize: TokenizeConfig = TokenizeConfig()
    session: SessionConfig = SessionConfig()
    weights: WeightsConfig = WeightsConfig()
    max_in_flight_per_worker: int | None = Field(default=None, ge=1)
    """Requests that a worker is given at a time. None: no limit, unless one of the next two sets it."""
    max_in_flight_per_slot: float | None = Field(default=None, gt=0)
    """The same as a multiple of the worker's `max_batch_size`, where that is known."""
    max_kv_share: float | None = Field(default=None, gt=0)
    """Share of a worker's `kv_tokens` for requests in flight; more wait. Needs a policy by blocks."""
    queue: QueueConfig = QueueConfig()
    enforce_ttft: bool = False
    """Refuse a request whose objective for its first token no worker is expected to meet."""
    breaker: BreakerConfig = BreakerConfig()
    hedge: HedgeConfig | None = None
    overflow: OverflowConfig = OverflowConfig()
    fallbacks: Fallbacks = Field(default_factory=dict)
    """Models whose requests go to another model while no worker of theirs can take them."""
    disaggregation: DisaggregationConfig = DisaggregationConfig()
    health: HealthConfig = HealthConfig()
