"""Forgets people when they ask for it: in every room that keeps something of them, now or when it can be.

Components do it by `erase`; what cannot be reached is kept on disk and asked again.
"""

from radixway.erasure.erasure import ErasureOutcome, ErasureService, TargetOutcome
from radixway.erasure.pending import PendingErasure, PendingErasureStore

__all__ = ["ErasureOutcome", "ErasureService", "PendingErasure", "PendingErasureStore", "TargetOutcome"]
