"""Where cached prefixes go when the device has no room for them, and come back from: host memory and disk.

`TieredKVCache` decides and keeps the books, in the engine thread. One transfer thread copies, in the order
it is told.
"""

from radixway.engine.tiers.disk_tier import DiskTier, KVFingerprint, open_disk_tier
from radixway.engine.tiers.host_pool import TierLoad
from radixway.engine.tiers.tiered_cache import TieredKVCache, TierStats

__all__ = ["DiskTier", "KVFingerprint", "TierLoad", "TierStats", "TieredKVCache", "open_disk_tier"]
