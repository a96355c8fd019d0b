"""A router of a user's own: ours, with requests in the order in which they came."""

from ray.serve.request_router import FIFOMixin

from radixway.cluster.ray_router import PrefixAffinityRouter


class OrderedRouter(FIFOMixin, PrefixAffinityRouter):
    """Ray's mixin in front of ours."""
