"""`radixway serve` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def gateway_process(
    directory: Path, tree: Mapping[str, Any], *, home: Path | None = None, files: int | None = None
) -> Iterator[tuple[str, subprocess.Popen]]:
    """Its URL and the process, once it serves. `tree`: as radixway.yaml; `home`: RADIXWAY_HOME.

    `files`: how many it may have open.
    """
    directory.mkdir(exist_ok=True)
    path = directory / "radixway.yaml"
    path.write_text(json.dumps(tree))
    command = [sys.executable, "-m", "radixway", "serve", "--config", str(path)]
    env = os.environ if home is None else {**os.environ, "RADIXWAY_HOME": str(home)}
    if files is not None:
        command = ["prlimit", f"--nofile={files}:{files}", *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            line = next(line for line in process.stdout if line.startswith("gateway http"))
            yield line.split()[1], process
        finally:
            process.kill()
