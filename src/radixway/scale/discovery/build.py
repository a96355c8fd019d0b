"""Which sources are configured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from radixway.config import Config, ConfigError, DiscoveryConfig
from radixway.routing import FleetMembership
from radixway.scale.discovery.discovery import WorkerDiscovery
from radixway.scale.discovery.source import DiscoverySource
from radixway.telemetry import MetricsRegistry


def build_discovery(
    config: Config,
    membership: FleetMembership,
    metrics: MetricsRegistry,
    more: Sequence[DiscoverySource] = (),
) -> WorkerDiscovery:
    """As the `discovery` section says, and `more`. Raises ConfigError if a package is missing."""
    sources = [*_configured_sources(config.discovery), *more]
    names = [source.name for source in sources]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"discovery: two sources are {twice[0]}")
    return WorkerDiscovery(membership, sources, metrics)


def _configured_sources(config: DiscoveryConfig) -> Iterator[DiscoverySource]:
    if config.dns:
        try:
            from radixway.scale.discovery.dns_source import DnsSource
        except ModuleNotFoundError as error:
            needed = f"discovery.dns needs the package {error.name}: pip install 'radixway[dns]'"
            raise ConfigError(needed) from None
        yield from map(DnsSource, config.dns)
    if config.kubernetes:
        from radixway.scale.discovery.kubernetes_source import KubernetesSource

        yield from map(KubernetesSource, config.kubernetes)
