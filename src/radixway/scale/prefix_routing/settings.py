"""What a router may be told, as `request_router_kwargs` brings it."""

from pydantic import Field

from radixway.config import PrefixAffinityPolicyConfig
from radixway.scale.prefix_routing.prompts import BLOCK_BYTES


class PrefixSettings(PrefixAffinityPolicyConfig):
    """Names and defaults as in Ray's guide, checked; and how much is remembered at all.

    Characters are bytes of UTF-8, and counted in blocks of 64.
    """

    max_chars: int = Field(default=16_000_000, ge=1_000_000)
    """Characters remembered of all replicas together, in each router and in the actor, whatever
    `do_eviction` says."""

    @property
    def most_blocks(self) -> int:
        """The same in blocks."""
        return self.max_chars // BLOCK_BYTES
