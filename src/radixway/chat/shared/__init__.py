"""What several processes on one database tell each other: that something changed, and what answers say.

Nothing here is the truth: all of it may be lost, and is made again from the database.
"""

from radixway.chat.shared.choosing import sharing
from radixway.chat.shared.kept import Kept
from radixway.chat.shared.wakes import Carrier, SharedWake

__all__ = ["Carrier", "Kept", "SharedWake", "sharing"]
