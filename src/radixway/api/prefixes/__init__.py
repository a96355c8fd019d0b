"""`GET /prefixes`: shared prefixes of prompts: their use, their users, and the workers that cache them."""

from radixway.api.prefixes.routes import prefix_routes
from radixway.api.prefixes.sources import PrefixSources

__all__ = ["PrefixSources", "prefix_routes"]
