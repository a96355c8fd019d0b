"""Replaces a small file whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Put `content` in the place of the file `path`, with the permissions `mode`.

    Readers find the old file or the new one, also where the machine stops meanwhile. Raises OSError.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
