"""`GET /prefixes`: shared prefixes of prompts: their use, their users, and the workers that cache them."""

from radixway.api.prefixes.routes import PrefixSources, prefix_routes

__all__ = ["PrefixSources", "prefix_routes"]
