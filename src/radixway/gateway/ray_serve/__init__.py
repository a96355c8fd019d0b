"""The gateway and its engines as one application of Ray Serve; needs radixway[ray].

`serve run radixway.gateway.ray_serve:build config=radixway.yaml`, or `radixway ray deploy`.
"""

from radixway.gateway.ray_serve.application import BuildArguments, build, build_app

__all__ = ["BuildArguments", "build", "build_app"]
