"""`GET /prefixes`: what prompts have in common, how hot it is, by whom it is asked for and where it lies.

Three trees, bounded and without text: of the latest requests (`shared`), of engines' caches, of recorded
conversations.
"""

from radixway.api.prefixes.routes import prefix_routes
from radixway.api.prefixes.sources import PrefixSources

__all__ = ["PrefixSources", "prefix_routes"]
