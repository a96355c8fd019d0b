"""Engines as deployments of Ray Serve, and what gateways need to find them; needs radixway[ray].

The whole application is put together in `radixway.gateway.ray_serve`. Serve's controller owns the set of
engines and gateways; `replica_source.py` follows it by snapshots, each whole.
"""

from radixway.cluster.ray_serve.replica_source import RayReplicaSource

__all__ = ["RayReplicaSource"]
