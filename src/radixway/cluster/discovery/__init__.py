"""Worker discovery: sources that report which workers there are, each in a task of its own.

The configuration's workers are added once, at the start; all others come and go without a restart.
"""

from radixway.cluster.discovery.discovery import ConfiguredWorkers, WorkerDiscovery, build_discovery
from radixway.cluster.discovery.registration import WorkerRegistrations
from radixway.cluster.discovery.source import DiscoverySource, DiscoverySourceError, ReportWorkers

__all__ = [
    "ConfiguredWorkers",
    "DiscoverySource",
    "DiscoverySourceError",
    "ReportWorkers",
    "WorkerDiscovery",
    "WorkerRegistrations",
    "build_discovery",
]
