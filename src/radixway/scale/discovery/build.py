"""Which sources are configured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from radixway.config import Config, ConfigError, DiscoverySection
from radixway.routing import Membership
from radixway.scale.discovery.discovery import Discovery
from radixway.scale.discovery.source import Source
from radixway.telemetry import Metrics


def build_discovery(
    config: Config, membership: Membership, metrics: Metrics, more: Sequence[Source] = ()
) -> Discovery:
    """As the `discovery` section says, and `more`. Raises ConfigError if a package is missing."""
    sources = [*_configured(config.discovery), *more]
    names = [source.name for source in sources]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"discovery: two sources are {twice[0]}")
    return Discovery(membership, sources, metrics)


def _configured(config: DiscoverySection) -> Iterator[Source]:
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
