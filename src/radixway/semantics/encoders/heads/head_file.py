"""A head's file: arrays and what must be known to use them, in one .npz."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders.base import EncoderError, TextEncoder

_FORMAT = 1
_ABOUT = "about"
"""Entry with all but the arrays: JSON in UTF-8, as bytes."""

Array = NDArray[np.generic]


@dataclass(slots=True, frozen=True)
class HeadFile:
    """A classifier's arrays, whose meaning depends on its `kind`."""

    kind: str
    """`domain`, `jailbreak`, `pii` …"""
    labels: tuple[str, ...]
    """Labels in the order of the arrays' columns."""
    encoder: str
    """The id of the encoder that it was trained with, precision included."""
    weights: str
    """SHA-256 of that encoder's weights, hexadecimal."""
    data: str
    """Training data, for people: sets, rows, licences."""
    arrays: Mapping[str, Array]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Numbers and switches that belong to the arrays: temperature, buckets …; JSON values."""

    def save_file(self, path: Path) -> None:
        """Write the file; equal heads make equal files."""
        about = {
            "format": _FORMAT,
            "kind": self.kind,
            "labels": self.labels,
            "encoder": self.encoder,
            "weights": self.weights,
            "data": self.data,
            "settings": dict(self.settings),
            "sha256": _arrays_digest(self.arrays),
        }
        written = json.dumps(about, ensure_ascii=False, sort_keys=True).encode()
        entries: dict[str, Any] = {_ABOUT: np.frombuffer(written, np.uint8)}
        entries.update((name, self.arrays[name]) for name in sorted(self.arrays))
        np.savez_compressed(path, **entries)

    @classmethod
    def load_file(cls, path: Path, *, kind: str) -> HeadFile:
        """Raises EncoderError for a file that is no head, not of this kind, or not as it was written."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays: dict[str, Array] = {name: file[name] for name in file.files}
            about = json.loads(arrays.pop(_ABOUT).tobytes())
            head = cls(
                kind=about["kind"],
                labels=tuple(about["labels"]),
                encoder=about["encoder"],
                weights=about["weights"],
                data=about["data"],
                arrays=arrays,
                settings=about["settings"],
            )
            version, digest = about["format"], about["sha256"]
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise EncoderError(f"{path} is no head: {error}") from error
        if version != _FORMAT:
            raise EncoderError(f"{path} is in format {version}; this version reads {_FORMAT}")
        if head.kind != kind:
            raise EncoderError(f"{path} is a head for {head.kind}, not for {kind}")
        if digest != _arrays_digest(arrays):
            raise EncoderError(f"{path} is damaged: its arrays are not those that were saved")
        return head

    def take_array(self, script: str, name: str, *shape: int) -> Array:
        """Return the array `name` of a table for `script`.

        Raises KeyError where there is none, EncoderError where it has another shape.
        """
        array = self.arrays[f"{script}_{name}"]
        if array.shape != shape:
            raise EncoderError(f"the {self.kind} head's {script}_{name} has shape {array.shape}, not {shape}")
        return array

    def check_encoder(self, encoder: TextEncoder) -> None:
        """Raises EncoderError unless it was trained on this encoder's weights.

        Their precision may differ: float32, the fallback, must be able to use what was trained on int8, and
        vectors of the two have a mean cosine of .994.
        """
        if self.weights != encoder.weights:
            raise EncoderError(
                f"this {self.kind} head was trained with {self.encoder}, weights {self.weights[:12]}; "
                f"those of {encoder.id} are {encoder.weights[:12]}: retrain it or use that model"
            )


def _arrays_digest(arrays: Mapping[str, Array]) -> str:
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()
