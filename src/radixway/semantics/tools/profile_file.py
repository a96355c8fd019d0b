"""A database's vectors in a file, so that the next start need not make them."""

from __future__ import annotations

import logging
import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from radixway.semantics.tools.tool_index import ToolProfile

log = logging.getLogger(__name__)


def write_profiles(file: Path, digests: Sequence[bytes], profiles: Sequence[ToolProfile]) -> None:
    """One digest, of 16 bytes, per profile. Where the file cannot be written the next start takes longer."""
    nothing = np.full_like(profiles[0].description, np.nan)
    arrays: dict[str, Any] = {
        "digests": np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16),
        "descriptions": np.stack([each.description for each in profiles]),
        "names": np.stack([each.name for each in profiles]),
        "clauses": np.concatenate([each.clauses for each in profiles]),
        "clause_counts": np.array([len(each.clauses) for each in profiles]),
        "examples": np.stack([nothing if each.examples is None else each.examples for each in profiles]),
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(descriptor, "wb") as opened:
            np.savez(opened, **arrays)
        Path(name).replace(file)
    except OSError as error:
        log.warning("semantic: tools are read anew at every start: %s: %s", file, error.strerror)


def read_profiles(file: Path) -> dict[bytes, ToolProfile]:
    """Those that were written, by digest; none, and a warning, where the file cannot be used."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            counts = arrays["clause_counts"]
            clauses = np.split(arrays["clauses"], np.cumsum(counts)[:-1])
            examples = [None if np.isnan(row[0]) else row for row in arrays["examples"]]
            digests = [row.tobytes() for row in arrays["digests"]]
            rows = zip(arrays["descriptions"], arrays["names"], clauses, examples, strict=True)
            return {digest: ToolProfile(*row) for digest, row in zip(digests, rows, strict=True)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        log.warning("semantic: %s is made anew: %s", file, error)
        return {}
