"""Garbage collection in a process that is ours: what lives as long as the process is not looked at."""

import gc
from time import thread_time

_THRESHOLDS = (10_000, 10, 10)
"""Allocations, and collections of the younger generation, that start a collection of each generation."""
_LONG_COLLECTION_S = 0.02
_MAX_LATE_FREEZES = 8


class HeapFreezer:
    """Keeps what was made by the start, and by late loads, out of garbage collection.

    A process that embeds a gateway decides about its own garbage collection: this is for commands of ours.

    What is loaded after the start (an encoder, a tokenizer, modules that a first request imports) shows in a
    full collection that takes long; what survives that is frozen, too. That happens a few times at most,
    because what is frozen and becomes part of a cycle later is never freed.
    """

    def __init__(
        self, long_collection_s: float = _LONG_COLLECTION_S, max_late_freezes: int = _MAX_LATE_FREEZES
    ) -> None:
        """`long_collection_s`: CPU time of the thread that collects."""
        self._long_collection_s = long_collection_s
        self._late_freezes_left = max_late_freezes
        self._began_s = 0.0

    def freeze_startup_objects(self) -> None:
        """Free what is garbage after the start and freeze the rest."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.callbacks.append(self._freeze_late)

    def _freeze_late(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2 or not self._late_freezes_left:
            return
        if phase == "start":
            self._began_s = thread_time()
        elif thread_time() - self._began_s > self._long_collection_s:
            self._late_freezes_left -= 1
            gc.freeze()
