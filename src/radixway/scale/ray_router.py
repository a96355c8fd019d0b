"""Request routers for anyone's Ray Serve deployment: by prefixes, by expected time.

They decide in their own process, with the gateway's own index, ledger and policies (docs/scale.md). Needs
`radixway[ray]`; nothing else imports this module.
"""

from radixway.scale.prefix_routing.expected_time import ExpectedTimeRouter
from radixway.scale.prefix_routing.prefix_affinity import PrefixAffinityRouter

PrefixCacheAffinityRouter = PrefixAffinityRouter
"""Under the name that Ray published."""

__all__ = ["ExpectedTimeRouter", "PrefixAffinityRouter", "PrefixCacheAffinityRouter"]
