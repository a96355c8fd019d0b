"""Lower tiers of the prefix cache, below the device's pool: host memory and disk.

Start with `TieredKVCache`, which decides what is copied and keeps the accounts, in the engine thread. One
transfer thread copies, in the order of its calls.
"""

from radixway.engine.tiers.host_pool import TierLoad
from radixway.engine.tiers.tiered_cache import TieredKVCache, TierStats

__all__ = ["TierLoad", "TierStats", "TieredKVCache"]
