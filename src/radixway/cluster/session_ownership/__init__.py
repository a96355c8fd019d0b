"""Session ownership: a session or a reservation belongs to the gateway
that its name hashes to, and other gateways pass its requests on to that one.

`docs/decisions/` says why it has no store of its own.
"""

from radixway.cluster.session_ownership.owner_proxy import OwnerProxy, build_owner_proxy
from radixway.cluster.session_ownership.signed_hop import is_signed_hop

__all__ = ["OwnerProxy", "build_owner_proxy", "is_signed_hop"]
