"""The one radix tree: match, insert, split, lock, evict.

Generic over the key (text or packed token ids) and over the payload an edge carries.
"""

from radixway.core.radix.eviction import Order, lfu, lru, priority, slru
from radixway.core.radix.node import Payload, PrefixMatch, RadixNode, RadixRoot
from radixway.core.radix.outline import OutlineNode, outline, root_of
from radixway.core.radix.tree import RadixTree, common_prefix

__all__ = [
    "Order",
    "OutlineNode",
    "Payload",
    "PrefixMatch",
    "RadixNode",
    "RadixRoot",
    "RadixTree",
    "common_prefix",
    "lfu",
    "lru",
    "outline",
    "priority",
    "root_of",
    "slru",
]
