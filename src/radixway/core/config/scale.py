"""The `scale` and `ray` sections: several gateways, how many workers they need, and Ray as their host."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from radixway.core.config.base import ConfigSection, RedisUrl, ZmqEndpoint
from radixway.core.config.engine import EngineConfig

_DAY_S = 86_400


class ObjectiveConfig(ConfigSection, allow_inf_nan=False):
    """The latencies that a model's clients are promised."""

    ttft_s: float = Field(default=2.0, ge=1e-6, le=_DAY_S)
    """Seconds to the first token …"""
    ttft_percentile: float = Field(default=0.9, gt=0.0, lt=1.0)
    """… for this share of requests."""
    itl_s: float = Field(default=0.05, ge=1e-6, le=_DAY_S)
    """Mean seconds between the tokens of an answer."""


class ProfileConfig(ConfigSection, allow_inf_nan=False):
    """The speed of one replica: the constants of `simulate --engine`, measured by `radixway plan profile`.

    The defaults stand for a model of some 8 B parameters on one data-centre GPU.
    """

    step_s: float = Field(default=0.008, ge=0, le=_DAY_S)
    """Seconds of an empty step."""
    prefill_s: float = Field(default=1 / 12_000, gt=0, le=_DAY_S)
    """Seconds per prefilled token."""
    decode_s: float = Field(default=0.000_2, ge=0, le=_DAY_S)
    """Seconds per decoding request and step."""
    context_s: float = Field(default=0.000_000_02, ge=0, le=_DAY_S)
    """Seconds per token that a decoding request attends to."""
    attention_s: float = Field(default=0.0, ge=0, le=_DAY_S)
    """Seconds per prefilled token and token before it."""
    step_tokens: int = Field(default=2048, ge=1)
    """Tokens computed in a step at most."""
    max_running: int = Field(default=256, ge=1)
    """Requests in prefill or decode at most."""
    kv_tokens: int | None = Field(default=None, ge=1)
    """Tokens its KV cache holds; None: more than it ever needs."""
    startup_s: float = Field(default=60.0, ge=0, le=_DAY_S)
    """Seconds from the order of a replica to its first request."""


class PlannedModelConfig(ConfigSection, allow_inf_nan=False):
    """Settings for planning one model."""

    objective: ObjectiveConfig = ObjectiveConfig()
    profile: ProfileConfig = ProfileConfig()
    min_replicas: int = Field(default=1, ge=1, le=10_000)
    """Fewest replicas of each role."""
    max_replicas: int = Field(default=16, ge=1, le=10_000)
    """Most replicas of each role."""

    @model_validator(mode="after")
    def _check_replica_range(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas must be at least min_replicas")
        return self


class PlannerConfig(PlannedModelConfig):
    """The planner of replica counts. It proposes; Ray, Kubernetes or people start and stop them."""

    models: dict[str, PlannedModelConfig] = Field(default_factory=dict)
    """Models that differ from what stands above, by name; each whole in itself."""
    load_interval_s: float = Field(default=5.0, ge=0.1, le=600)
    """How often what is queued and running is looked at."""
    interval_s: float = Field(default=180.0, ge=1, le=_DAY_S)
    """How often the arrivals of the next interval are forecast: the floor under what the load asks for."""
    forecast: Literal["kalman", "holt", "arima", "constant"] = "kalman"
    """By which model; `constant` expects the last interval again and needs no statistics library."""
    forecast_share: float = Field(default=0.8, ge=0.5, lt=1)
    """Arrivals are expected not to exceed what is planned for with this probability."""
    history: int = Field(default=60, ge=4, le=2000)
    """Intervals that a forecast looks back on."""
    scale_down_patience_s: float = Field(default=300.0, ge=0)
    """Replicas leave once fewer would have done for so long."""
    least_utilization: float = Field(default=0.7, gt=0, lt=1)
    """Replicas are kept while queue or decoding are above this share of what the objective allows …"""
    most_utilization: float = Field(default=1.0, gt=0)
    """… and added above this."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.most_utilization <= self.least_utilization:
            raise ValueError("most_utilization must be above least_utilization")
        if self.interval_s < self.load_interval_s:
            raise ValueError("interval_s must be at least load_interval_s")
        return self

    def for_model(self, model: str) -> PlannedModelConfig:
        """Return the settings that hold for `model`."""
        return self.models.get(model, self)


class SharedLimitsConfig(ConfigSection):
    """A Redis or Valkey server that all gateways use, and that keeps what it has across a restart."""

    redis: RedisUrl
    """`redis://host:6379/0`."""
    prefix: str = Field(default="radixway:limits:", max_length=128, pattern=r"^[^{}\s]*$")
    """Prefix of its keys; unrelated gateways need another one."""
    timeout_s: float = Field(default=0.25, gt=0, le=10)
    """Longest wait of a request; without an answer, limits are each gateway's own until the server answers
    again."""
    forget_after_s: int = Field(default=10, ge=2, le=3600)
    """Seconds of silence after which a gateway's requests in flight are forgotten."""


def _check_gateway(url: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+/?", url):
        raise ValueError(f"{url!r} is no address of a gateway: give http://HOST:PORT")
    return url.rstrip("/")


GatewayUrl = Annotated[str, AfterValidator(_check_gateway)]


class GatewaysConfig(ConfigSection):
    """All gateways of a fleet, with the same list in each, so that each finds what another holds in
    memory."""

    self_url: GatewayUrl
    """URL of this gateway, as in `all`."""
    all: tuple[GatewayUrl, ...] = Field(min_length=2)
    """URLs by which gateways reach each other: `http://10.0.0.1:30000`."""
    key: SecretStr = Field(min_length=16)
    """Shared by them: by it each believes what another says of whose request it passes on."""

    @model_validator(mode="after")
    def _check_self_url(self) -> Self:
        if self.self_url not in self.all:
            raise ValueError(f"self_url {self.self_url} is not among all")
        if len(set(self.all)) != len(self.all):
            raise ValueError("all names a gateway twice")
        return self


def _check_peer(endpoint: str) -> str:
    if "*" in endpoint:
        raise ValueError(f"{endpoint!r} cannot be connected to: it names no host and port")
    return endpoint


Peer = Annotated[ZmqEndpoint, AfterValidator(_check_peer)]


class SyncConfig(ConfigSection):
    """Exchange of load between gateways: over ZeroMQ (`bind` and `peers`), or by a server (`redis`).

    Only over a trusted network: messages are counted as load without authentication.
    """

    bind: ZmqEndpoint | None = None
    """Endpoint at which this gateway publishes: `tcp://10.0.0.1:5560`."""
    peers: tuple[Peer, ...] = ()
    """Endpoints of the others. This gateway may be among them, so that all can have the same list."""
    redis: RedisUrl | None = None
    """A Redis or Valkey server that all of them use: `redis://host:6379/0`."""
    ray: bool = False
    """The gateways are replicas of one Ray application and find each other; set by `radixway ray deploy`."""
    channel: str = Field(default="radixway.load", min_length=1)
    """Channel on that server; gateways of other workers need another one."""
    key: SecretStr | None = Field(default=None, min_length=16)
    """Shared by the gateways: messages that were not sealed with it are ignored."""
    interval_s: float = Field(default=0.01, ge=0.001, le=1)
    """How long changes are gathered before they are told."""
    heartbeat_s: float = Field(default=1.0, gt=0, le=60)
    """Interval of full reports."""
    forget_after_s: float = Field(default=3.5, gt=0)
    """A gateway not heard for so long has no load any more."""

    @model_validator(mode="after")
    def _check_single_transport(self) -> Self:
        if (self.redis is not None) + (self.bind is not None) + self.ray != 1:
            raise ValueError("give either redis, or bind and peers, or ray: true")
        if self.bind is None and self.peers:
            raise ValueError("peers belong to bind; over redis and in Ray gateways find each other")
        if self.bind is not None and not self.peers:
            raise ValueError("bind needs peers: where the other gateways publish")
        if self.forget_after_s <= self.heartbeat_s:
            raise ValueError("forget_after_s must be longer than heartbeat_s")
        return self


class ScaleConfig(ConfigSection):
    """Several gateways in front of the same workers, and how many of these there should be."""

    sync: SyncConfig | None = None
    """None: each goes by its own load alone."""
    limits: SharedLimitsConfig | None = None
    """None: each gateway counts what passes through it."""
    gateways: GatewaysConfig | None = None
    """Gateways that share sessions. None: each keeps its own."""
    planner: PlannerConfig | None = None
    """Capacity planner. None: off."""


def _check_import_path(path: str) -> str:
    module, colon, name = path.replace(":", ".", 1).rpartition(".")
    if not (colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise ValueError(f"{path!r} is no dotted path of a class or function: package.module.Name")
    return f"{module}.{name}"


ImportPath = Annotated[str, AfterValidator(_check_import_path)]
DeploymentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]

BY_REQUESTS = "radixway.cluster.planner.ray_autoscaler.by_requests_in_hand"


class RayAutoscalingConfig(ConfigSection):
    """Bounds and targets for the number of replicas. Ray's own names and meanings."""

    min_replicas: int = Field(default=1, ge=1)
    """The fewest."""
    max_replicas: int = Field(ge=1)
    """The most."""
    target_ongoing_requests: float = Field(default=8, gt=0)
    """Requests in flight per replica to aim at."""
    upscale_delay_s: float = Field(default=10, ge=0)
    """How long more must be wanted before one comes."""
    downscale_delay_s: float = Field(default=300, ge=0)
    """How long fewer must suffice before one goes."""
    look_back_period_s: float = Field(default=30, gt=0)
    """Over how long what replicas report is averaged."""
    policy: ImportPath = BY_REQUESTS
    """A function or class of Ray's kind that decides for engines; the gateway goes by Ray's own counts."""
    policy_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of a class."""

    @model_validator(mode="after")
    def _check_replica_range(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas must not be less than min_replicas")
        return self


class ReplicasConfig(ConfigSection):
    """Settings that replicas of one deployment share."""

    replicas: int = Field(default=1, ge=1)
    """How many, where nothing scales them."""
    autoscaling: RayAutoscalingConfig | None = None
    """Goes before `replicas`."""
    num_cpus: float = Field(default=1, ge=0)
    """Cores that Ray keeps for each replica."""
    num_gpus: float = Field(default=0, ge=0)
    """GPUs that Ray keeps for each replica."""
    resources: dict[str, float] = Field(default_factory=dict)
    """Ray's custom resources per replica."""

    @property
    def most_replicas(self) -> int:
        """Replicas that there may be."""
        return self.replicas if self.autoscaling is None else self.autoscaling.max_replicas


class RayGatewayConfig(ReplicasConfig):
    """The gateway's replicas, behind Ray Serve's proxies."""

    max_ongoing_requests: int = Field(default=10_000, ge=1)
    """Requests that one is given at a time; more wait in Ray's proxies, unseen by the gateway's own queue."""


class RayEngineConfig(ReplicasConfig):
    """A deployment of engines: one model, any number of replicas."""

    name: DeploymentName = "engine"
    """Name of the deployment."""
    kind: Literal["radixway", "vllm"] = "radixway"
    """Our embedded engine, or vLLM where the cluster's nodes have it."""
    settings: EngineConfig = EngineConfig()
    """Goes before the `engine` section, key by key. vLLM takes `model` and `served_model_name` of it."""
    arguments: tuple[str, ...] = ()
    """More of `vllm serve`'s: `[--max-model-len, "8192"]`."""
    pools: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Pools of its workers (docs/tenants.md)."""
    drain_s: float = Field(default=30, ge=0)
    """How long requests may go on once Ray takes a replica away."""
    start_within_s: float = Field(default=600, gt=0)
    """How long its server may take until it answers."""
    request_router_class: ImportPath | None = None
    """For those who call by handle: `radixway.cluster.ray_router.PrefixAffinityRouter`. Not the gateway."""
    request_router_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of that class."""
    max_ongoing_requests: int = Field(default=1024, ge=1)
    """Requests by handle that one replica is given at a time."""

    @model_validator(mode="after")
    def _check_engine_options(self) -> Self:
        if self.arguments and self.kind != "vllm":
            raise ValueError("arguments are vLLM's: the embedded engine takes settings")
        return self


class RayConfig(ConfigSection):
    """Deployments that `radixway ray deploy` makes."""

    application: DeploymentName = "radixway"
    """Its name in Ray Serve."""
    route_prefix: str = Field(default="/", pattern=r"^/([^{}]*[^/{}])?$")
    """The path below which Serve's proxies pass requests on."""
    gateway: RayGatewayConfig = RayGatewayConfig()
    engines: tuple[RayEngineConfig, ...] = (RayEngineConfig(),)
    """One for each model; none where all workers are elsewhere."""

    @model_validator(mode="after")
    def _check_unique_names(self) -> Self:
        names = [engine.name for engine in self.engines]
        for name in names:
            if names.count(name) > 1 or name == GATEWAY_NAME:
                raise ValueError(f"there is more than one deployment of the name {name!r}")
        return self


GATEWAY_NAME = "gateway"
