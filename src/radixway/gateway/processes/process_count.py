"""The number of processes of a gateway, and the check that its configuration works with several."""

from __future__ import annotations

from radixway.core.config import Config, ConfigError, KvEventsConfig
from radixway.core.usable_cores import count_usable_cores
from radixway.routing.kv_events.subscription import publisher_addresses


def count_processes(config: Config) -> int:
    """Return how many processes `gateway.processes` asks for on this machine."""
    wanted = config.gateway.processes
    return count_usable_cores() if wanted == "auto" else wanted


def check_processes(config: Config) -> None:
    """Raise ConfigError for what only one process can do: hold an address or a file that is not shared."""
    if count_processes(config) == 1:
        return
    sync = config.scale.sync
    if sync is not None and sync.bind is not None:
        raise ConfigError(
            f"scale.sync.bind: only one of several processes could listen at {sync.bind}: use "
            "scale.sync.redis, over which they find the others and each other, or gateway.processes: 1"
        )
    for at, worker in enumerate(config.workers):
        events = worker.kv_events
        if isinstance(events, KvEventsConfig) and any(each.binds for each in publisher_addresses(events)):
            raise ConfigError(
                f"workers.{at}.kv_events.endpoint: only one of several processes could listen at "
                f"{events.endpoint}: have the worker bind its publisher, or gateway.processes: 1"
            )
    if config.ext_proc.enabled and config.ext_proc.port == 0:
        raise ConfigError(
            "ext_proc.port: 0 would be another port in each of several processes: give the one that Envoy "
            "calls"
        )
    cache = config.semantic_cache
    if cache.backend == "milvus" and cache.milvus is not None and "://" not in cache.milvus.uri:
        raise ConfigError(
            f"semantic_cache.milvus.uri: only one of several processes could open {cache.milvus.uri}: give "
            "the URL of a Milvus server, or gateway.processes: 1"
        )
