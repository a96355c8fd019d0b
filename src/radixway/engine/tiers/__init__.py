"""Where cached prefixes go when the device has no room for them, and come back from: host memory and disk.

`Tiers` decides and keeps the books, in the engine thread. One transfer thread copies, in the order it is
told.
"""

from radixway.engine.tiers.copies import Load
from radixway.engine.tiers.disk import Disk, Fingerprint, open_disk
from radixway.engine.tiers.tiers import Tiers, TierStats

__all__ = ["Disk", "Fingerprint", "Load", "TierStats", "Tiers", "open_disk"]
