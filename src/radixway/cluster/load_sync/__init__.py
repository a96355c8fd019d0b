"""Gateways in front of the same workers exchange their requests in flight there, best effort.

Prefixes need no such thing: all gateways hear the workers' KV events. `docs/decisions/` says why it is built
as it is.
"""

from radixway.cluster.load_sync.load_sync import LoadSync, build_load_sync
from radixway.cluster.load_sync.transport import SyncTransport
from radixway.cluster.load_sync.unix_transport import UnixTransport

__all__ = [
    "LoadSync",
    "SyncTransport",
    "UnixTransport",
    "build_load_sync",
]
