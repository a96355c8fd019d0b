"""How long garbage collection stops the process."""

from __future__ import annotations

import gc
from time import perf_counter

from radixway.telemetry.metrics.figures import LabeledHistogram

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class GarbagePauses(LabeledHistogram):
    """Collections by generation, from `begin` to `end`. While one lasts no thread runs."""

    def __init__(self) -> None:
        super().__init__(
            "radixway_gc_pause_seconds",
            "Seconds for which garbage collection stopped the process",
            ("generation",),
            _BOUNDS,
        )
        self._pauses = [self.with_labels(str(generation)) for generation in range(3)]
        self._began_s = 0.0

    def start_counting(self) -> None:
        """Count from now on."""
        gc.callbacks.append(self._on_collection)

    def stop_counting(self) -> None:
        """Count no longer."""
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = perf_counter()
        else:
            self._pauses[info["generation"]].observe_value(perf_counter() - self._began_s)
