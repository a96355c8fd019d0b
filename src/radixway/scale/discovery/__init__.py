"""Where workers come from: sources that tell which there are now, each in a task of its own.

The configuration's workers are told once, at the start; the rest comes and goes without a restart.
"""

from radixway.scale.discovery.build import build_discovery
from radixway.scale.discovery.configured import ConfiguredWorkers
from radixway.scale.discovery.discovery import WorkerDiscovery
from radixway.scale.discovery.registration import WorkerRegistrations
from radixway.scale.discovery.source import DiscoverySource, DiscoverySourceError, ReportWorkers

__all__ = [
    "ConfiguredWorkers",
    "DiscoverySource",
    "DiscoverySourceError",
    "ReportWorkers",
    "WorkerDiscovery",
    "WorkerRegistrations",
    "build_discovery",
]
