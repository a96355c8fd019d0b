"""Files of one row a line."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, with their numbers, of a file that may be gzipped. Raises OSError."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
