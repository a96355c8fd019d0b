"""The `ray` section: the gateway and its engines as one application of Ray Serve."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from radixway.core.config.base import ConfigSection
from radixway.core.config.engine import EngineConfig


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
    """Requests that a replica should have in hand."""
    upscale_delay_s: float = Field(default=10, ge=0)
    """How long more must be wanted before one comes."""
    downscale_delay_s: float = Field(default=300, ge=0)
    """How long fewer must suffice before one goes."""
    look_back_period_s: float = Field(default=30, gt=0)
    """Over how long what replicas report is averaged."""
    policy: ImportPath = BY_REQUESTS
    """A function or class of Ray's kind that decides for engines; the gateway goes by Ray's own counts."""
    policy_kwargs: dict[str, Any] = Field(default_factory=dict)
    """What a class is made with."""

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
    """Of Ray's custom resources, for each replica."""

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
    """Of the deployment."""
    kind: Literal["radixway", "vllm"] = "radixway"
    """Our embedded engine, or vLLM where the cluster's nodes have it."""
    settings: EngineConfig = EngineConfig()
    """Goes before the `engine` section, key by key. vLLM takes `model` and `served_model_name` of it."""
    arguments: tuple[str, ...] = ()
    """More of `vllm serve`'s: `[--max-model-len, "8192"]`."""
    pools: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """What its workers belong to (docs/tenants.md)."""
    drain_s: float = Field(default=30, ge=0)
    """How long requests may go on once Ray takes a replica away."""
    start_within_s: float = Field(default=600, gt=0)
    """How long its server may take until it answers."""
    request_router_class: ImportPath | None = None
    """For others who call by handle: `radixway.cluster.ray_router.PrefixAffinityRouter`. The gateway calls
    replicas over HTTP and chooses them itself."""
    request_router_kwargs: dict[str, Any] = Field(default_factory=dict)
    """What that class is built with."""
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
