"""Request routers for anyone's Ray Serve deployment: by prefixes, by expected time.

They decide in their own process, with the gateway's own index, ledger and policies (docs/scale.md). Needs
`radixway[ray]`; nothing else imports this module.
"""

from radixway.cluster.prefix_router.routers import ExpectedTimeRouter, PrefixAffinityRouter
from radixway.cluster.prefix_router.tenant_prefix_tree import TenantPrefixNode, TenantPrefixTree
from radixway.cluster.prefix_router.tree_actor import PrefixTreeActor

PrefixCacheAffinityRouter = PrefixAffinityRouter
"""Under the name that Ray published, as are the next two."""
PrefixTree = TenantPrefixTree
Node = TenantPrefixNode

__all__ = [
    "ExpectedTimeRouter",
    "Node",
    "PrefixAffinityRouter",
    "PrefixCacheAffinityRouter",
    "PrefixTree",
    "PrefixTreeActor",
]
