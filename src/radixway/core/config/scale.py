"""The `scale.limits` section: tenants' rates and quotas for several gateways together.

The `scale.gateways` section: who else is there, so that each conversation has one gateway.

The `scale` section: several gateways in front of the same workers, and how many these should be.
"""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from radixway.core.config.base import ConfigSection, RedisUrl
from radixway.core.config.planner import PlannerConfig


class SharedLimitsConfig(ConfigSection):
    """A Redis or Valkey server that all gateways use, and that keeps what it has across a restart."""

    redis: RedisUrl
    """`redis://host:6379/0`."""
    prefix: str = Field(default="radixway:limits:", max_length=128, pattern=r"^[^{}\s]*$")
    """Of its keys; gateways that do not belong together need another one."""
    timeout_s: float = Field(default=0.25, gt=0, le=10)
    """What a request waits for it at most; then limits are each gateway's alone until it answers again."""
    forget_after_s: int = Field(default=10, ge=2, le=3600)
    """A gateway that is not heard of for so long has nothing in hand any more."""


def _check_gateway(url: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+/?", url):
        raise ValueError(f"{url!r} is no address of a gateway: give http://HOST:PORT")
    return url.rstrip("/")


GatewayUrl = Annotated[str, AfterValidator(_check_gateway)]


class GatewaysConfig(ConfigSection):
    """All gateways of one fleet, the same list in each: what one keeps in its memory is found from all."""

    self_url: GatewayUrl
    """This one, as it stands in `all`."""
    all: tuple[GatewayUrl, ...] = Field(min_length=2)
    """Where each reaches the others: `http://10.0.0.1:30000`."""
    key: SecretStr = Field(min_length=16)
    """Shared by them: by it each believes what another says of whose request it passes on."""

    @model_validator(mode="after")
    def _check_self_url(self) -> Self:
        if self.self_url not in self.all:
            raise ValueError(f"self_url {self.self_url} is not among all")
        if len(set(self.all)) != len(self.all):
            raise ValueError("all names a gateway twice")
        return self


_ENDPOINT = re.compile(r"tcp://([^:/\[\]@]+|\[[^]]+\]):(\*|\d{1,5})|ipc://.+")


def _check_endpoint(endpoint: str) -> str:
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or ((found[2] or "*") != "*" and int(found[2]) > 65535):
        raise ValueError(f"{endpoint!r} is no ZeroMQ endpoint: give tcp://HOST:PORT or ipc://PATH")
    return endpoint


def _check_peer(endpoint: str) -> str:
    if "*" in endpoint:
        raise ValueError(f"{endpoint!r} cannot be connected to: it names no host and port")
    return endpoint


Endpoint = Annotated[str, AfterValidator(_check_endpoint)]
Peer = Annotated[Endpoint, AfterValidator(_check_peer)]


class SyncConfig(ConfigSection):
    """Exchange of load between gateways: over ZeroMQ (`bind` and `peers`), or by a server (`redis`).

    Only over a network where nobody else can speak: what is said is counted as load, never checked.
    """

    bind: Endpoint | None = None
    """Where this gateway publishes: `tcp://10.0.0.1:5560`."""
    peers: tuple[Peer, ...] = ()
    """Where the others do. This gateway may be among them, so that all can have the same list."""
    redis: RedisUrl | None = None
    """A Redis or Valkey server that all of them use: `redis://host:6379/0`."""
    ray: bool = False
    """They are replicas of one Ray application, and find each other; `radixway ray deploy` sees to it."""
    channel: str = Field(default="radixway.load", min_length=1)
    """Of that server; gateways in front of other workers need another one."""
    key: SecretStr | None = Field(default=None, min_length=16)
    """Shared by the gateways: messages that were not sealed with it are ignored."""
    interval_s: float = Field(default=0.01, ge=0.001, le=1)
    """How long changes are gathered before they are told."""
    heartbeat_s: float = Field(default=1.0, gt=0, le=60)
    """How often everything is told, changed or not."""
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
    """None: what is kept in one's memory is found by whoever comes back to it."""
    planner: PlannerConfig | None = None
    """None: nobody counts how many workers a model needs."""
