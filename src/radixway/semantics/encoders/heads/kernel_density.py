"""What short known texts near a text are about: a kernel density for each label (Parzen 1962).

A softmax over states draws straight borders; what people ask of one discipline lies in many small heaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders.base import EncoderError, Floats
from radixway.semantics.encoders.heads.head_file import HeadFile

SHARPNESS = 20.0
"""A known text of cosine c counts exp(SHARPNESS · c)."""
_DENSITY_FLOOR = 1e-4
"""Added to a label's density over the labels' mean, so that none is impossible."""


@dataclass(slots=True, frozen=True)
class LabelDensity:
    """Known texts' vectors, projected to fewer dimensions, one label's after another's."""

    projection: Floats
    """[size, dimensions]"""
    offset: Floats
    """[dimensions]: what the mean vector is projected to."""
    points: Floats
    """[texts, dimensions], of unit length."""
    counts: NDArray[np.int64]
    """[labels]: how many of `points` belong to each; at least one."""

    @classmethod
    def from_head(cls, head: HeadFile, script: str) -> LabelDensity | None:
        """None where the file has none for `script`; EncoderError where an array has another shape."""
        if f"{script}_points" not in head.arrays:
            return None
        names = ("projection", "offset", "points", "points_per_label")
        projection, offset, points, counts = (head.arrays[f"{script}_{name}"] for name in names)
        known, dimensions = points.shape
        shapes = projection.shape[1:], offset.shape, counts.shape, int(counts.sum())
        if shapes != ((dimensions,), (dimensions,), (len(head.labels),), known) or counts.min() < 1:
            raise EncoderError(f"the domain head's {script}_points do not fit its other arrays")
        return cls(
            projection.astype(np.float32),
            offset.astype(np.float32),
            normalize_rows(points.astype(np.float32)),
            counts.astype(np.int64),
        )

    def arrays(self, script: str) -> dict[str, NDArray[np.generic]]:
        """Return what `from_head` reads, by the names it has in the file; the points in 8 bits."""
        return {
            f"{script}_projection": self.projection,
            f"{script}_offset": self.offset,
            f"{script}_points": np.round(self.points / np.abs(self.points).max() * 127).astype(np.int8),
            f"{script}_points_per_label": self.counts,
        }

    def logits(self, vector: Floats) -> Floats:
        """[labels]: logarithms of the density of each label's texts at `vector`, over their mean."""
        place = vector @ self.projection - self.offset
        cosines = self.points @ (place / max(float(np.linalg.norm(place)), 1e-12))
        starts = np.cumsum(self.counts) - self.counts
        density = np.add.reduceat(np.exp(SHARPNESS * (cosines - cosines.max())), starts) / self.counts
        logits: Floats = np.log(density / density.mean() + _DENSITY_FLOOR).astype(np.float32)
        return logits


def normalize_rows(points: Floats) -> Floats:
    """Rows of length one."""
    rows: Floats = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    return rows
