"""Many of us: where workers come from, and what gateways in front of the same workers tell each other."""

from radixway.cluster.config_warnings import warn_unshared_state
from radixway.cluster.discovery import (
    ConfiguredWorkers,
    DiscoverySource,
    WorkerDiscovery,
    WorkerRegistrations,
    build_discovery,
)
from radixway.cluster.load_sync import LoadSync, build_load_sync
from radixway.cluster.load_sync import SyncTransport as LoadTransport
from radixway.cluster.session_ownership import OwnerProxy, build_owner_proxy, is_signed_hop

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
