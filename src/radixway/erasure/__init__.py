"""Forgets people when they ask for it: in every room that keeps something of them, now or when it can be.

Components do it by `erase`; what cannot be reached is kept on disk and asked again.
"""

from radixway.erasure.erasure import Erased, Erasure, RoomTold
from radixway.erasure.pending import Pending, PendingErasures

__all__ = ["Erased", "Erasure", "Pending", "PendingErasures", "RoomTold"]
