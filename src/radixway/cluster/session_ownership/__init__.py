"""Session ownership: a session or a reservation belongs to the gateway
that its name hashes to, and other gateways pass its requests on to that one.

`docs/decisions/` says why it has no store of its own.
"""

from radixway.cluster.session_ownership.owner_proxy import (
    OwnerProxy,
    OwnerUnavailableError,
    build_owner_proxy,
    build_ownership_keys,
)
from radixway.cluster.session_ownership.ownership_keys import GatewayFleet, OwnershipKeys
from radixway.cluster.session_ownership.peer_connections import PeerConnections, make_session
from radixway.cluster.session_ownership.signed_hop import HopSigner, is_signed_hop, read_hop_header

__all__ = [
    "GatewayFleet",
    "HopSigner",
    "OwnerProxy",
    "OwnerUnavailableError",
    "OwnershipKeys",
    "PeerConnections",
    "build_owner_proxy",
    "build_ownership_keys",
    "is_signed_hop",
    "make_session",
    "read_hop_header",
]
