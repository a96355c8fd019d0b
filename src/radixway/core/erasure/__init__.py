"""Erases people's data when they ask for it: in every target that stores any, now or when it can be reached.

Components do it by `erase`; what cannot be reached is kept on disk and asked again.

State, and the file that owns it:

- `service.py`: erasures that are not done everywhere, a file each: on disk before the first target is
  asked, removed when the last is done
"""

from radixway.core.erasure.pending_store import PendingErasure, PendingErasureStore
from radixway.core.erasure.service import ErasureOutcome, ErasureService, TargetOutcome

__all__ = ["ErasureOutcome", "ErasureService", "PendingErasure", "PendingErasureStore", "TargetOutcome"]
