"""Garbage collection in a process that is ours: what lives as long as the process is not looked at."""

import asyncio
import gc
from collections.abc import Callable

_THRESHOLDS = (10_000, 10, 10)
"""Allocations, and collections of the younger generation, that start a collection of each generation."""
_MAX_OLD_OBJECTS = 20_000
"""Objects that survived a collection and are looked at in a full one: 8 ms at .4 µs each."""
_MAX_UNEXAMINED_RATIO = 1.0
_IDLE_INTERVAL_S = 5.0


class HeapFreezer:
    """Keeps what was made by the start, and by late loads, out of garbage collection.

    A process that embeds a gateway decides about its own garbage collection: this is for commands of ours.

    What is loaded after the start (modules that a first request imports, rules, an encoder) would make each
    full collection longer. Before one begins the objects are counted, and where there are too many they are
    frozen instead, garbage among them too. That is examined when there is nothing else to do
    (`examine_when_idle`), or once as much is unexamined as was examined before::

        frozen   examined at the start or since  |  unexamined, at most as many
        tracked  at most `max_old_objects`       |  what is young
    """

    def __init__(
        self, max_old_objects: int = _MAX_OLD_OBJECTS, max_unexamined_ratio: float = _MAX_UNEXAMINED_RATIO
    ) -> None:
        """`max_unexamined_ratio`: to the examined objects."""
        self._max_old_objects = max_old_objects
        self._max_unexamined_ratio = max_unexamined_ratio
        self._examined = 0
        self._examining = False
        self._idle_watch: asyncio.Task[None] | None = None

    @property
    def unexamined(self) -> int:
        """Frozen objects of which it is not known whether they are garbage."""
        return max(0, gc.get_freeze_count() - self._examined)

    def freeze_startup_objects(self, is_idle: Callable[[], bool] | None = None) -> None:
        """Free what is garbage after the start and freeze the rest.

        `is_idle`: whether nobody minds a pause; then the running loop examines what is frozen later.
        """
        gc.set_threshold(*_THRESHOLDS)
        gc.callbacks.append(self._on_collection)
        self.examine_heap()
        if is_idle is not None:
            watching = self.examine_when_idle(is_idle)
            self._idle_watch = asyncio.get_running_loop().create_task(watching, name="heap freezer")

    def examine_heap(self) -> None:
        """Free all garbage and freeze the rest. Takes .4 µs an object, in which no thread runs."""
        self._examining = True
        gc.unfreeze()
        gc.collect()

    async def examine_when_idle(
        self, is_idle: Callable[[], bool], interval_s: float = _IDLE_INTERVAL_S
    ) -> None:
        """Examine what late loads left when `is_idle` is true twice in a row; runs until it is cancelled."""
        was_idle = False
        while True:
            await asyncio.sleep(interval_s)
            if (idle := is_idle()) and was_idle and self.unexamined > self._max_old_objects:
                self.examine_heap()
            was_idle = idle

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._freeze_or_examine()
        elif self._examining:
            gc.freeze()
            self._examined, self._examining = gc.get_freeze_count(), False

    def _freeze_or_examine(self) -> None:
        """Freeze old objects that are too many to be looked at, or let all be looked at if that is due."""
        if self._examining or _count_old_objects() <= self._max_old_objects:
            return
        if self.unexamined > self._max_unexamined_ratio * self._examined:
            self._examining = True
            gc.unfreeze()
        else:
            gc.freeze()


def _count_old_objects() -> int:
    return sum(len(gc.get_objects(generation=generation)) for generation in (1, 2))
