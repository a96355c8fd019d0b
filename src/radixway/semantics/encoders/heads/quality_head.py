"""How likely each model is to answer a text well: a linear head over the sentence vector and the domain.

`tools/train_quality_head.py` learns one from a table of which model answered which question rightly.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from radixway.semantics.encoders.base import EncoderError, Floats
from radixway.semantics.encoders.heads.head_file import HeadFile

PROBE = "Which of these models knows the answer?"
"""A sentence whose vector tells encoders apart."""
MIN_PROBE_SIMILARITY = 0.97


class QualityHead:
    """Reads a vector, and the domain where it was trained with one, in microseconds."""

    def __init__(self, head: HeadFile) -> None:
        """Raises EncoderError where `head` lacks an array, or has one of another shape."""
        self.models = head.labels
        try:
            self.vector: Floats = head.arrays["vector"].astype(np.float32)
            self.bias: Floats = head.arrays["bias"].astype(np.float32)
        except KeyError as error:
            raise EncoderError(f"the quality head lacks {error}") from None
        domains = head.arrays.get("domains")
        self.domains: Floats | None = None if domains is None else domains.astype(np.float32)
        count = len(self.models)
        self._probe = np.asarray(head.settings.get("probe", ()), np.float32)
        if self.vector.ndim != 2 or self.vector.shape[1] != count or self.bias.shape != (count,):
            raise EncoderError(f"the quality head's arrays are not of {count} models")

    @classmethod
    def read_file(cls, path: Path) -> QualityHead:
        """Raises EncoderError for a file that is no quality head; `check` comes next."""
        return cls(HeadFile.load_file(path, kind="quality"))

    def check_probe(self, probe: Floats) -> None:
        """Raises EncoderError unless `probe`, the vector of `PROBE`, is what the head was trained with.

        By a vector rather than by the encoder's weights, because whoever compiles rules has only vectors.
        Precision may differ (cosine .99); another model's vector is far from it, or of another size.
        """
        fits = probe.shape == self._probe.shape == self.vector.shape[:1]
        if not fits or float(probe @ self._probe) < MIN_PROBE_SIMILARITY:
            raise EncoderError("this quality head was trained with another encoder: retrain it")

    def predict_quality(self, vectors: Floats, domains: Floats | None = None) -> Floats:
        """[…, models]: the share of such texts that each model answers well, not confined to 0–1.

        `vectors`: […, size]. `domains`: […, labels], probabilities; needed where it was trained with them.
        """
        quality: Floats = vectors @ self.vector + self.bias
        if self.domains is not None:
            if domains is None:
                raise ValueError("this quality head reads the domain too")
            quality = quality + domains @ self.domains
        return quality
