"""The gateway and its engines as one application of Ray Serve; needs radixway[ray].

`serve run radixway.scale.ray_serve:build config=radixway.yaml`, or `radixway ray deploy`.
"""

from radixway.scale.ray_serve.build import BuildArguments, build, build_app
from radixway.scale.ray_serve.replicas import RayReplicaSource

__all__ = ["BuildArguments", "RayReplicaSource", "build", "build_app"]
