"""Request routers for anyone's Ray Serve deployment: by prefixes, by expected time.

They decide in their own process, with the gateway's own index, ledger and policies (docs/scale.md). Needs
`radixway[ray]`; nothing else imports this module.
"""

from radixway.cluster.prefix_router.routers import ExpectedTimeRouter, PrefixAffinityRouter

PrefixCacheAffinityRouter = PrefixAffinityRouter
"""Under the name that Ray published."""

__all__ = ["ExpectedTimeRouter", "PrefixAffinityRouter", "PrefixCacheAffinityRouter"]
