"""Several gateways, many workers: discovery, load sync, session ownership, Ray Serve, Kubernetes, planner.

State, and the file that owns it:

- `discovery/registration.py`: leases of workers that register, by this gateway's clock; ended by heartbeat
  or time
- `load_sync/peer_loads.py`: load that other gateways report, in `Load.elsewhere` (not exact: the latest
  message counts)
- `prefix_router/replica_fleet.py`: what replicas behind Ray's handles have seen, and their load; `check()`
  recounts
- `prefix_router/prefix_record.py`: the same for routers that start later, in a detached actor; bounded
- `planner/traffic_window.py`: recent traffic per model, taken and reset with every look
- `planner/model_planner.py`: proposed replicas per model; pure, given the time
- `session_ownership/ownership_keys.py`: the gateway that owns a session or reservation, a function of its
  name; a request is forwarded once, signed
- `session_ownership/owner_proxy.py`: the other gateways that do not answer (not exact: the latest answer
  counts)
"""

from radixway.cluster.config_warnings import warn_unshared_state
from radixway.cluster.discovery import (
    ConfiguredWorkers,
    DiscoverySource,
    WorkerRegistrations,
    build_discovery,
)
from radixway.cluster.load_sync import SyncTransport as LoadTransport
from radixway.cluster.load_sync import build_load_sync
from radixway.cluster.session_ownership import build_owner_proxy, is_signed_hop

__all__ = [
    "ConfiguredWorkers",
    "DiscoverySource",
    "LoadTransport",
    "WorkerRegistrations",
    "build_discovery",
    "build_load_sync",
    "build_owner_proxy",
    "is_signed_hop",
    "warn_unshared_state",
]
