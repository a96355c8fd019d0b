"""A worker: a process that answers requests, as the gateway knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Any, Literal

from yarl import URL

from radixway.core.config import HostedWorkerSettings, KvEventsConfig, Role, WorkerSettings
from radixway.core.telemetry import SharedObject
from radixway.routing.circuit_breaker import CircuitBreaker
from radixway.routing.engine_metrics import EngineMetrics
from radixway.routing.worker_load import WorkerLoad

OWN_ENGINE = "radixway"
"""Name of our engine in `/server_info`."""


class WorkerState(StrEnum):
    """A worker's state; only READY ones are candidates for new requests."""

    JOINING = "joining"
    """Added, not yet seen answering."""
    READY = "ready"
    STALE = "stale"
    """It answers with weights of another version than the fleet's."""
    DOWN = "down"
    """It failed; probed with growing pauses until it answers again."""
    DRAINING = "draining"


ErrorKind = Literal[
    "certificate",
    "tls",
    "name",
    "refused",
    "timeout",
    "no_http",
    "unreachable",
    "unwell",
    "misconfigured",
    "defect",
]
"""Kinds of failed health checks. `unwell`: the worker reports a problem. `misconfigured`: the key of a hosted
one is missing, or refused."""


class KvEventsState(StrEnum):
    """State of the subscription to a worker's KV events."""

    OFF = "off"
    """It publishes none, or none can be received."""
    CONNECTING = "connecting"
    REPLAYING = "replaying"
    FOLLOWING = "following"
    DEGRADED = "degraded"
    """Too many events were missed to know what it holds: routing goes by its own decisions until then."""


@dataclass(frozen=True, slots=True)
class KvEventsStatus:
    """Summary of a worker's KV event subscription."""

    state: KvEventsState = KvEventsState.OFF
    reason: str | None = None
    last_batch: int | None = None
    blocks: int = 0
    """Blocks of the engine's own size that it holds."""
    block_tokens: int | None = None
    """That size, once an event has told it."""
    orphans: int = 0


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model as its worker lists it."""

    root: str | None = None
    """What it was loaded from."""
    max_model_len: int | None = None
    """Tokens of prompt and answer together."""
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """All that its entry has. Workers make times and ids of permissions anew with each call."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Facts that a worker reports of itself. None where it reports nothing."""

    models: tuple[str, ...] | None = None
    kv_tokens: int | None = None
    block_tokens: int | None = None
    """Tokens in a block of its KV cache."""
    max_batch_size: int | None = None
    kv_events: KvEventsConfig | None = None
    kv_events_problem: str | None = None
    """Why what it tells of its publisher is of no use here."""
    adapters: Mapping[str, str] = field(default_factory=dict)
    """LoRA adapters among the models, and the model that each belongs to."""
    cards: Mapping[str, ModelCard] = field(default_factory=dict)
    """By model."""
    tokenizer_path: str | None = None
    """Path of its tokenizer on its machine."""
    tokenizes: bool = False
    engine: str | None = None
    weight_version: str | None = None
    role: Role = "any"
    """Our own engine says which it was started for."""
    bootstrap_port: int | None = None
    """And, if it prefills, where it is met."""


@dataclass(slots=True, eq=False)
class Worker(SharedObject):
    """A worker's address, models, limits, load and health."""

    config: WorkerSettings
    """The operator's settings, which override its own report."""
    info: ServerInfo = ServerInfo()
    load: WorkerLoad = field(default_factory=WorkerLoad)
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    state: WorkerState = WorkerState.JOINING
    sources: tuple[str, ...] = ()
    """Sources that name it; set by `routing/fleet_membership.py`."""
    removed: bool = False
    """It was removed; its requests finish."""
    failures: int = 0
    """Probes failed in a row."""
    last_error: str | None = None
    error_kind: ErrorKind | None = None
    """Kind of the latest probe's failure, or None."""
    logged_kind: ErrorKind | None = None
    """Kind that was logged, so that it is logged once."""
    picked: int = 0
    """Logical time of the selector's last choice of this worker; the least recent wins a tie."""
    slot: int = -1
    """Its place in the block index; the selector gives it one."""
    kv_events: KvEventsStatus = KvEventsStatus()
    weight_version: str | None = None
    """Version of its weights, if known; set by `routing/weight_versions.py`."""
    weight_revision: int = 0
    """How many updates it has taken through this gateway."""
    report: EngineMetrics | None = None
    """Its own metrics as last read."""
    surfaces: frozenset[str] | None = None
    """Paths that it offers, by its `/openapi.json`; None: not known, or it does not say."""
    refused_until: float = 0.0
    """Until then (monotonic seconds) a hosted worker is not asked, as it has refused its key."""
    limited_until: float = 0.0
    """Until then a hosted worker is not asked, as it has said that there were too many requests."""
    name: str = field(init=False)
    """`host:port` (and path), or a hosted one's own; unique, ASCII: in journals, metrics and headers."""
    hosted: HostedWorkerSettings | None = field(init=False)
    """Its settings where it is a provider's."""

    def __post_init__(self) -> None:
        url = URL(self.config.url)
        self.hosted = self.config if isinstance(self.config, HostedWorkerSettings) else None
        name = None if self.hosted is None else self.hosted.name
        self.name = name or f"{url.raw_authority}{url.raw_path.rstrip('/')}"

    @property
    def url(self) -> str:
        """Return the URL without a trailing slash."""
        return self.config.url

    @property
    def models(self) -> tuple[str, ...]:
        """The models it serves, as far as is known."""
        return self.config.models or self.info.models or ()

    @property
    def pools(self) -> tuple[str, ...]:
        """Worker pools that it belongs to."""
        return self.config.pools

    @property
    def role(self) -> Role:
        """Return the operator's role. Our own engine knows better: given another one, it does both."""
        if self.info.engine != OWN_ENGINE:
            return self.config.role
        return self.info.role if self.config.role in ("any", self.info.role) else "any"

    @property
    def dialect(self) -> Literal["vllm", "sglang", "radixway"] | None:
        """Protocol by which it transfers KV; our own engine uses SGLang's, and reports it itself."""
        if self.info.engine == OWN_ENGINE:
            return "radixway" if self.info.role != "any" else None
        return self.config.disaggregation.dialect if self.config.disaggregation is not None else None

    @property
    def bootstrap_port(self) -> int | None:
        """Port of the bootstrap server of a prefill worker of SGLang's kind."""
        given = self.config.disaggregation
        return self.info.bootstrap_port or (given.bootstrap_port if given is not None else None)

    @property
    def answers_alone(self) -> bool:
        """Return whether it can prefill what it answers. SGLang's decode workers refuse a request without a
        pair."""
        return self.role == "any" or (self.role == "decode" and self.dialect != "sglang")

    @property
    def kv_tokens(self) -> int | None:
        """Tokens its KV cache holds."""
        return self.config.kv_tokens or self.info.kv_tokens

    @property
    def block_tokens(self) -> int:
        """Tokens in a block of its KV cache, by what it reports and publishes; 1 where it does neither."""
        return max(self.info.block_tokens or 1, self.kv_events.block_tokens or 1)

    @property
    def max_batch_size(self) -> int | None:
        """Requests it runs at a time."""
        return self.config.max_batch_size or self.info.max_batch_size

    @property
    def api_key(self) -> str | None:
        """Sent to it as a bearer token; None for a hosted one, whose provider says how it is sent."""
        return self.config.api_key.get_secret_value() if self.config.api_key and not self.hosted else None

    def may_offer(self, path: str) -> bool:
        """Return whether it offers `path`, whose query does not matter, or does not say what it offers."""
        return self.surfaces is None or path.partition("?")[0] in self.surfaces

    def update_config(self, section: WorkerSettings) -> None:
        """Apply the operator's new `section`; what it leaves open stays as it was."""
        new = {name: getattr(section, name) for name in section.model_fields_set}
        self.config = self.config.model_copy(update=new)
        self.hosted = self.config if isinstance(self.config, HostedWorkerSettings) else None

    def describe(self) -> dict[str, Any]:
        """The worker as `/list_workers` shows it."""
        return {
            "name": self.name,
            "url": self.url,
            "state": self.state.value,
            "sources": list(self.sources),
            "models": list(self.models),
            "pools": list(self.pools),
            "provider": None if self.hosted is None else self.hosted.provider,
            "role": self.role,
            "disaggregation": self.dialect,
            "kv_tokens": self.kv_tokens,
            "block_tokens": self.block_tokens,
            "max_batch_size": self.max_batch_size,
            "max_in_flight": self.config.max_in_flight,
            "in_flight": self.load.requests,
            "in_flight_elsewhere": self.load.elsewhere.requests,
            "total": self.load.total,
            "weight_version": self.weight_version,
            "breaker": self.breaker.state(monotonic()).value,
            "kv_events": asdict(self.kv_events),
            "last_error": self.last_error,
            "error_kind": self.error_kind,
            "given": self.config.model_dump(mode="json", exclude={"url", "api_key"}, exclude_defaults=True),
            "has_key": self.config.api_key is not None or self.hosted is not None,
        }
