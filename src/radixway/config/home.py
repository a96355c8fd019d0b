"""Where Radixway keeps what it prepares and remembers."""

from __future__ import annotations

import os
from pathlib import Path


def radixway_home() -> Path:
    """`RADIXWAY_HOME`, or `radixway` where the user's programs keep their data. It need not exist yet."""
    given = os.environ.get("RADIXWAY_HOME")
    if given:
        return Path(given).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "radixway"
