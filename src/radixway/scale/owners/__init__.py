"""What one gateway alone keeps, found from all of them: a session or a reservation belongs to the gateway
that its name leads to, and whoever is asked about it passes the request on.

`docs/decisions/` says why it is not kept in a store of its own.
"""

from radixway.scale.owners.fleet import Fleet
from radixway.scale.owners.forwarding import Forwarding, build_forwarding
from radixway.scale.owners.places import Places
from radixway.scale.owners.seal import Seals, is_sealed

__all__ = ["Fleet", "Forwarding", "Places", "Seals", "build_forwarding", "is_sealed"]
