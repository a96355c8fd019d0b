"""Many of us: where workers come from, and what gateways in front of the same workers tell each other."""

from radixway.scale.discovery import (
    ConfiguredWorkers,
    DiscoverySource,
    WorkerDiscovery,
    WorkerRegistrations,
    build_discovery,
)
from radixway.scale.load_sync import LoadSync, build_load_sync
from radixway.scale.load_sync import SyncTransport as LoadTransport
from radixway.scale.owners import OwnerProxy, build_owner_proxy, is_signed_hop
from radixway.scale.unshared import warn_unshared_state

__all__ = [
    "ConfiguredWorkers",
    "DiscoverySource",
    "LoadSync",
    "LoadTransport",
    "OwnerProxy",
    "WorkerDiscovery",
    "WorkerRegistrations",
    "build_discovery",
    "build_load_sync",
    "build_owner_proxy",
    "is_signed_hop",
    "warn_unshared_state",
]
