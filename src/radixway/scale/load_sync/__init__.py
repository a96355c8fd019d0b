"""Gateways in front of the same workers tell each other what they have in hand there, best effort.

Prefixes need no such thing: all gateways hear the workers' KV events. `docs/decisions/` says why it is built
as it is.
"""

from radixway.scale.load_sync.build import build_load_sync
from radixway.scale.load_sync.message import InvalidSyncMessageError, SyncMessage, SyncMessageCodec
from radixway.scale.load_sync.peers import PeerGateway, PeerLoads
from radixway.scale.load_sync.sync import LoadSync
from radixway.scale.load_sync.transport import SyncTransport

__all__ = [
    "InvalidSyncMessageError",
    "LoadSync",
    "PeerGateway",
    "PeerLoads",
    "SyncMessage",
    "SyncMessageCodec",
    "SyncTransport",
    "build_load_sync",
]
