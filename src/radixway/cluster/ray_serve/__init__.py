"""Engines as deployments of Ray Serve, and what gateways need to find them; needs radixway[ray].

The whole application is put together in `radixway.gateway.ray_serve`.
"""

from radixway.cluster.ray_serve.replica_source import RayReplicaSource

__all__ = ["RayReplicaSource"]
