"""Gateways in front of the same workers tell each other what they have in hand there, best effort.

Prefixes need no such thing: all gateways hear the workers' KV events. `docs/decisions/` says why it is built
as it is.
"""

from radixway.scale.load_sync.build import build_load_sync
from radixway.scale.load_sync.message import BadMessage, Letters, Message
from radixway.scale.load_sync.peers import Peer, Peers
from radixway.scale.load_sync.sync import LoadSync
from radixway.scale.load_sync.transport import Transport

__all__ = ["BadMessage", "Letters", "LoadSync", "Message", "Peer", "Peers", "Transport", "build_load_sync"]
