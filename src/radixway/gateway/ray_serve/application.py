"""Builds the application that Ray Serve runs from a configuration; deploys, shows and deletes it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from pydantic import BaseModel, ConfigDict, SecretStr
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig
from ray.serve.deployment import Application, Deployment
from ray.serve.schema import ApplicationStatusOverview

from radixway._version import __version__
from radixway.cluster.ray_serve.engine_replica import EngineReplica
from radixway.core.config import (
    Config,
    EngineConfig,
    RayAutoscalingConfig,
    RayEngineConfig,
    SyncConfig,
    load_config,
)
from radixway.core.config.scale import GATEWAY_NAME, ReplicasConfig
from radixway.gateway.ray_serve.gateway_replica import GatewayReplica

_FAREWELL_S = 20.0
"""Time beyond its drain before Ray kills a replica."""
_HEALTH_EVERY_S = 2.0
"""Interval at which Ray checks replicas."""


class BuildArguments(BaseModel):
    """The arguments of `serve run radixway.gateway.ray_serve:build`, as `key=value`."""

    model_config = ConfigDict(extra="forbid")

    config: Path | None = None
    """A `radixway.yaml`."""


def build(arguments: Mapping[str, str]) -> Application:
    """Return the application of the file in `arguments`. Raises ConfigError, ValidationError."""
    return build_app(load_config(BuildArguments.model_validate(arguments).config))


def build_app(config: Config) -> Application:
    """Return `config` as gateway replicas in front of a deployment of engines for each model.

    A deployment has a version of what its replicas are made of: deploying again with other numbers starts or
    drains some, and leaves the others as they are.
    """
    engines = [_build_engines(section, config.engine) for section in config.ray.engines]
    section = config.ray.gateway
    # Numbers of replicas are no reason to restart a gateway, which follows them anyhow.
    own = config.model_copy(update={"ray": type(config.ray)()})
    if config.scale.sync is None and section.most_replicas > 1:
        own = own.model_copy(update={"scale": config.scale.model_copy(update={"sync": SyncConfig(ray=True)})})
    gateway = serve.deployment(GatewayReplica).options(
        name=GATEWAY_NAME,
        max_ongoing_requests=section.max_ongoing_requests,
        graceful_shutdown_timeout_s=config.gateway.drain_s + _FAREWELL_S,
        **_replica_options(
            section, None if section.autoscaling is None else _autoscaling_config(section.autoscaling)
        ),
    )
    return _with_version(gateway, "", own).bind(own, *engines)


def _build_engines(section: RayEngineConfig, common: EngineConfig) -> Application:
    chosen = section.settings
    settings = common.model_copy(update={name: getattr(chosen, name) for name in chosen.model_fields_set})
    autoscaling = None
    if section.autoscaling is not None:
        autoscaling = _autoscaling_config(section.autoscaling)
        autoscaling.policy = AutoscalingPolicy(
            policy_function=section.autoscaling.policy, policy_kwargs=section.autoscaling.policy_kwargs
        )
    router = {}
    if section.request_router_class is not None:
        router["request_router_config"] = RequestRouterConfig(
            request_router_class=section.request_router_class,
            request_router_kwargs=section.request_router_kwargs,
        )
    engine = serve.deployment(EngineReplica).options(
        name=section.name,
        max_ongoing_requests=section.max_ongoing_requests,
        graceful_shutdown_timeout_s=section.drain_s + _FAREWELL_S,
        health_check_period_s=_HEALTH_EVERY_S,
        **router,
        **_replica_options(section, autoscaling),
    )
    made_of = section.model_copy(update={"replicas": 1, "autoscaling": None})
    # A replica that was started without autoscaling never begins to report its requests.
    reports = "reports" if autoscaling is not None else ""
    return _with_version(engine, reports, made_of, settings).bind(made_of, settings)


def _replica_options(section: ReplicasConfig, autoscaling: AutoscalingConfig | None) -> dict[str, Any]:
    """Return the number of replicas and their resources."""
    options = {"num_cpus": section.num_cpus, "num_gpus": section.num_gpus, "resources": section.resources}
    if autoscaling is not None:
        return {"ray_actor_options": options, "autoscaling_config": autoscaling, "num_replicas": "auto"}
    return {"ray_actor_options": options, "num_replicas": section.replicas}


def _autoscaling_config(section: RayAutoscalingConfig) -> AutoscalingConfig:
    return AutoscalingConfig(
        min_replicas=section.min_replicas,
        max_replicas=section.max_replicas,
        target_ongoing_requests=section.target_ongoing_requests,
        upscale_delay_s=section.upscale_delay_s,
        downscale_delay_s=section.downscale_delay_s,
        look_back_period_s=section.look_back_period_s,
    )


def _with_version(deployment: Deployment, how: str, *made_of: BaseModel) -> Deployment:
    """Give the deployment a version: without one Ray makes a new one each time and restarts all replicas."""
    parts = json.dumps([part.model_dump() for part in made_of], default=_encode_secret, sort_keys=True)
    version = hashlib.sha256(f"{__version__} {how} {parts}".encode()).hexdigest()[:16]
    return deployment.options(version=version, _internal=True)


def _encode_secret(value: Any) -> str:
    """Return a digest, so that a changed secret restarts replicas without being readable."""
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


class RayUnreachableError(Exception):
    """No Ray cluster can be reached; the message says where one was looked for."""


class NotDeployedError(Exception):
    """The cluster has no application of that name."""


@contextmanager
def connect_ray(address: str | None) -> Iterator[None]:
    """Connected to the Ray at `address`, at RAY_ADDRESS, or on this machine. Raises RayUnreachableError."""
    try:
        ray.init(address=address or "auto", namespace="serve", log_to_driver=False)
    except ConnectionError as error:
        raise RayUnreachableError(
            f"no Ray can be reached at {address or 'RAY_ADDRESS or on this machine'}"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def deploy_application(config: Config) -> ApplicationStatusOverview:
    """Deploy, and wait until all replicas run; deployed again, it is changed, and only what differs restarts.

    Serve's proxies listen where the gateway would, unless they run already. Raises RuntimeError, in Ray's
    words, when replicas cannot be started.
    """
    serve.start(http_options={"host": config.gateway.host, "port": config.gateway.port})
    serve.run(build_app(config), name=config.ray.application, route_prefix=config.ray.route_prefix)
    return find_status(config.ray.application)


def find_status(application: str) -> ApplicationStatusOverview:
    """Return the state of `application`, deployment by deployment. Raises NotDeployedError."""
    known = serve.status().applications
    if application not in known:
        others = ", ".join(sorted(known)) or "none at all"
        raise NotDeployedError(f"there is no application {application!r} in this cluster; there are {others}")
    return known[application]


def delete_application(application: str) -> None:
    """End `application`: gateways first finish their requests. Raises NotDeployedError."""
    find_status(application)
    serve.delete(application)
