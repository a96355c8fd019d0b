"""Which transport is configured."""

from __future__ import annotations

import platform

from radixway.config import Config, ConfigError, SyncConfig
from radixway.routing import LoadLedger, WorkerRegistry
from radixway.scale.load_sync.sync import LoadSync
from radixway.scale.load_sync.transport import SyncTransport
from radixway.telemetry import MetricsRegistry


def build_load_sync(
    config: Config,
    registry: WorkerRegistry,
    ledger: LoadLedger,
    metrics: MetricsRegistry,
    in_ray: SyncTransport | None = None,
) -> LoadSync | None:
    """As `scale.sync` says; None where it says nothing. Raises ConfigError if a package is missing.

    `in_ray`: what carries messages between replicas of a Ray application.
    """
    sync = config.scale.sync
    if sync is None:
        return None
    name = f"{platform.node()}:{config.gateway.port}"
    return LoadSync(sync, name, registry, ledger, _make_transport(sync, in_ray), metrics)


def _make_transport(sync: SyncConfig, in_ray: SyncTransport | None) -> SyncTransport:
    if sync.ray:
        if in_ray is None:
            raise ConfigError("scale.sync.ray is for gateways that `radixway ray deploy` has deployed")
        return in_ray
    if sync.redis is not None:
        try:
            from radixway.scale.load_sync.over_redis import RedisTransport
        except ModuleNotFoundError as error:
            needed = f"scale.sync.redis needs the package {error.name}: pip install 'radixway[redis]'"
            raise ConfigError(needed) from None
        return RedisTransport(sync.redis.get_secret_value(), sync.channel, sync.forget_after_s)
    from radixway.scale.load_sync.over_zmq import ZmqTransport

    assert sync.bind is not None
    return ZmqTransport(sync.bind, sync.peers)
