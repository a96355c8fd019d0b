"""Which transport is configured."""

from __future__ import annotations

import platform

from radixway.config import Config, ConfigError, SyncSection
from radixway.routing import Ledger, Registry
from radixway.scale.load_sync.sync import LoadSync
from radixway.scale.load_sync.transport import Transport
from radixway.telemetry import Metrics


def build_load_sync(config: Config, registry: Registry, ledger: Ledger, metrics: Metrics) -> LoadSync | None:
    """As `scale.sync` says; None where it says nothing. Raises ConfigError if a package is missing."""
    sync = config.scale.sync
    if sync is None:
        return None
    name = f"{platform.node()}:{config.gateway.port}"
    return LoadSync(sync, name, registry, ledger, _transport(sync), metrics)


def _transport(sync: SyncSection) -> Transport:
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
