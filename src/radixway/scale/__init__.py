"""Many of us: where workers come from, and what gateways in front of the same workers tell each other."""

from radixway.scale.discovery import (
    ConfiguredWorkers,
    Discovery,
    Registrations,
    Source,
    build_discovery,
)
from radixway.scale.load_sync import LoadSync, build_load_sync
from radixway.scale.load_sync import Transport as LoadTransport
from radixway.scale.owners import Forwarding, build_forwarding, is_sealed
from radixway.scale.unshared import warn_of_unshared

__all__ = [
    "ConfiguredWorkers",
    "Discovery",
    "Forwarding",
    "LoadSync",
    "LoadTransport",
    "Registrations",
    "Source",
    "build_discovery",
    "build_forwarding",
    "build_load_sync",
    "is_sealed",
    "warn_of_unshared",
]
