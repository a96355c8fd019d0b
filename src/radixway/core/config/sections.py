"""Keys for workers that only prefill or only decode: how KV goes from one to the other, and when.

The sections of `radixway.yaml`. Every key is optional; what a key means stands under it.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, IPvAnyNetwork, SecretStr, model_validator
from yarl import URL

from radixway.core.config.base import ConfigSection
from radixway.core.config.kv_events import KvEventsSetting
from radixway.core.config.policies import ExpectedTimePolicyConfig, PolicyConfig
from radixway.core.config.pressure import BreakerConfig, HedgeConfig, QueueConfig, check_fallbacks
from radixway.core.config.telemetry import LogsConfig, TracingConfig


class TransferConfig(ConfigSection):
    """The protocol by which a worker hands KV on to another. `vllm` alone is short for `{dialect: vllm}`."""

    dialect: Literal["vllm", "sglang"]
    """Whose requests carry it: vLLM's `kv_transfer_params` or SGLang's `bootstrap_room`."""
    bootstrap_port: int = Field(default=8998, ge=1, le=65535)
    """Where an SGLang prefill worker is met: its `--disaggregation-bootstrap-port`."""


def _spell_out(value: Any) -> Any:
    return {"dialect": value} if isinstance(value, str) else value


Transfer = Annotated[TransferConfig, BeforeValidator(_spell_out)]


class DisaggregationConfig(ConfigSection):
    """Conditions on which another worker prefills a prompt than the one that answers.

    Not if both of the first two say that little is left to prefill, nor if the third says that it is no
    sooner. The first two are Dynamo's `isl_bounding`, names aside.
    """

    min_uncached_tokens: int = Field(default=2048, ge=0)
    """With fewer tokens to prefill the worker that answers prefills them, if …"""
    max_uncached_share: float = Field(default=0.7, ge=0, le=1)
    """… they are also a smaller share of the prompt than this."""
    by_expected_time: bool = True
    """Prefill elsewhere only if the first token is expected sooner, running answers' slowdown counted in."""
    slowdown: float = Field(default=0.05, ge=0)
    """What a second of prefill costs each answer running there, in seconds."""


_NUMERIC_HOST = re.compile(r"([^:]*\.)?(\d+|0x[\da-f]*)\.?")
"""What resolvers take for an IPv4 address, in its many spellings."""


def check_worker_url(text: str) -> str:
    """Return the worker's URL `text` in one spelling: ASCII, no default port, no trailing slash.

    Raises ValueError, which repeats no credentials, unless it is `http(s)://host[:port][/path]`.
    """
    shown = "***@" + text.rpartition("@")[2] if "@" in text else text
    try:
        url = URL(text)
    except ValueError as error:
        raise ValueError(f"{shown!r} is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise ValueError(f"a worker's URL must be http(s)://host[:port], not {shown!r}")
    if url.query_string or url.fragment or url.user or url.password:
        raise ValueError(f"a worker's URL takes no credentials, query or fragment: {shown!r}")
    if _NUMERIC_HOST.fullmatch(url.raw_host):
        try:
            IPv4Address(url.raw_host)
        except ValueError:
            raise ValueError(f"an IPv4 address must be four plain numbers: {shown!r}") from None
    if url.is_default_port():
        url = url.with_port(None)
    return str(url).rstrip("/")


def _check_bearer(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if not (text.isascii() and text.isprintable()):
        raise ValueError("a key that goes into a header must be printable ASCII")
    return secret


def _check_host(host: str) -> str:
    if not (host and host.isascii() and host.isprintable()):
        raise ValueError("this must be a name or an address")
    return host


WorkerUrl = Annotated[str, AfterValidator(check_worker_url)]
Host = Annotated[str, AfterValidator(_check_host)]
Bearer = Annotated[SecretStr, AfterValidator(_check_bearer)]
CorsOrigin = Annotated[str, Field(pattern=r"^(\*|https?://[^/\s]+)$")]
Fallbacks = Annotated[dict[str, str], AfterValidator(check_fallbacks)]
Role = Literal["any", "prefill", "decode"]
PoolName = Annotated[str, Field(min_length=1)]


class GatewayConfig(ConfigSection):
    """The server that clients reach."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=30000, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    admin_key: Bearer | None = None
    """When set, calls that change something (`/add_worker` …) need `Authorization: Bearer KEY`."""
    admin_networks: tuple[IPvAnyNetwork, ...] = ()
    """Networks (`10.0.0.0/8`) from which these calls need no key: engines that add themselves have none."""
    insecure: bool = False
    """Listen where other machines reach it (`host`) though they may then ask models without a key."""
    hosts: tuple[Host, ...] = ()
    """Names (`models.example.com`, with the port if it is not the scheme's own) under which browsers reach
    the gateway, where it needs no keys, or a proxy before it changes the `Host` header."""
    cors_origins: tuple[CorsOrigin, ...] = ()
    """Web pages of other sites that may ask the gateway (`https://app.example.com`), or `*` for all: answered
    as browsers want it (CORS). Administrative calls need a key there."""
    trusted_hops: tuple[IPvAnyNetwork, ...] = ()
    """Networks (`10.0.0.0/8`) of proxies whose word on model, worker and priority counts (docs/http.md)."""
    trusted_keys: tuple[Bearer, ...] = ()
    """Callers with one of these as their bearer token are trusted likewise."""
    max_body_bytes: int = Field(default=32 * 2**20, ge=1024)
    """Largest request body; a larger one is answered with 413."""
    request_timeout_s: float = Field(default=600, gt=0)
    """How long one request may take, answer included."""
    drain_s: float = Field(default=30, ge=0)
    """How long running requests may go on after the gateway was asked to stop."""


class WorkerTraits(ConfigSection):
    """Traits of workers that are known beforehand.

    Models and capacity are read from the worker where not given.
    """

    models: tuple[str, ...] = ()
    """What it serves; by default what it says itself."""
    role: Role = "any"
    """One that only prefills or only decodes is used in pairs (docs/routing.md)."""
    disaggregation: Transfer | None = None
    """How it hands KV on or takes it; needed where it has another role than `any`."""
    kv_tokens: int | None = Field(default=None, ge=1)
    """KV tokens its cache holds."""
    max_batch_size: int | None = Field(default=None, ge=1)
    """Requests it runs at a time."""
    max_in_flight: int | None = Field(default=None, ge=1)
    """Requests that it is given at a time; more wait. Goes before the limits under `routing`."""
    api_key: Bearer | None = None
    """Sent to the worker as `Authorization: Bearer KEY`."""
    pools: tuple[PoolName, ...] = ()
    """What it belongs to: tenants may be confined to workers of some pools (docs/tenants.md)."""
    kv_events: KvEventsSetting = "auto"
    """`auto`: where the worker itself says that it publishes. SGLang and our engine do; vLLM does not."""

    @model_validator(mode="after")
    def _check_disaggregation(self) -> Self:
        if self.role != "any" and self.disaggregation is None:
            raise ValueError(f"role {self.role} needs disaggregation: vllm or sglang, its way to pass KV")
        return self


class WorkerSettings(WorkerTraits):
    """One worker known from the start, or found."""

    url: WorkerUrl
    """Where it answers: `http(s)://HOST[:PORT][/PATH]`."""


class HealthConfig(ConfigSection):
    """Health checks of workers."""

    interval_s: float = Field(default=2.0, gt=0)
    """Between two looks at a worker."""
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

    headers: tuple[SessionHeader, ...] = ("x-session-id",)
    """In any spelling; credentials and what only a trusted hop may say are not among them."""
    fields: tuple[str, ...] = ("session_id", "user")
    """Top-level fields of the body."""


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


class RoutingConfig(ConfigSection):
    """Choice of a worker."""

    policy: PolicyConfig = ExpectedTimePolicyConfig()
    """How a worker is chosen: a name, `name:parameter=value`, or a mapping."""
    model_policies: dict[str, PolicyConfig] = Field(default_factory=dict)
    """Another policy for single models."""
    block_size: int = Field(default=16, ge=1, le=4096)
    """Tokens a block: the grain in which prefixes are known."""
    shortlist: int = Field(default=32, ge=8)
    """Of more candidates than these, those that hold most of the prompt and some others are scored."""
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
    """Share of a worker's `kv_tokens` that requests in hand may hold; more wait. Needs a policy by blocks."""
    queue: QueueConfig = QueueConfig()
    enforce_ttft: bool = False
    """Refuse a request whose objective for its first token no worker is expected to meet."""
    breaker: BreakerConfig = BreakerConfig()
    hedge: HedgeConfig | None = None
    fallbacks: Fallbacks = Field(default_factory=dict)
    """Models whose requests go to another model while no worker of theirs can take them."""
    disaggregation: DisaggregationConfig = DisaggregationConfig()
    health: HealthConfig = HealthConfig()


class RetryConfig(ConfigSection):
    """Retries when a worker fails before the first byte of its answer."""

    attempts: int = Field(default=3, ge=1)
    """Workers asked in all."""
    backoff_s: float = Field(default=0.05, ge=0)
    """Wait before a worker is asked a second time; doubled each round. Another worker is asked at once."""


class PipelineConfig(ConfigSection):
    """The middlewares between an endpoint and the workers, outermost first."""

    middlewares: tuple[str, ...] = ("radixway.core.pipeline.retry.Retry",)
    """Dotted paths of classes that follow `radixway.core.pipeline.Middleware`."""
    retry: RetryConfig = RetryConfig()


class TelemetryConfig(ConfigSection):
    """Logs, traces and the request journal."""

    logs: LogsConfig = LogsConfig()
    journal_capacity: int = Field(default=10_000, ge=0)
    """Requests that `/explain/{request_id}` still knows, as far as 256 MiB hold them."""
    tracing: TracingConfig = TracingConfig()
