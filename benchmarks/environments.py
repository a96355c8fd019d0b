"""Where peers live: an environment for each, under `~/.cache/radixway-bench/` (or `--peers-dir`).

Several of them pin versions that we cannot share. They are installed on first use.
"""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

PEERS_DIR = Path.home() / ".cache" / "radixway-bench"


class PeerUnavailableError(Exception):
    """A peer that cannot be measured here, with the reason."""


def environment(
    home: Path,
    requirements: Sequence[str],
    options: Sequence[str] = (),
    build_env: Mapping[str, str] | None = None,
) -> Path:
    """The virtual environment `home` with `requirements` in it, made and filled on first use.

    `options` are pip's, `build_env` is for what it builds. Raises `PeerUnavailableError` with its last words.
    """
    wanted = " ".join(requirements)
    marker = home / "installed"
    if marker.exists() and marker.read_text() == wanted:
        return home
    print(f"installing {wanted} into {home} …", flush=True)
    try:
        venv.create(home, with_pip=True, symlinks=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *options, *requirements]
        env = {**os.environ, **(build_env or {})}
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=3600, env=env)
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout or "").strip().splitlines()
        raise PeerUnavailableError(f"installing {wanted} failed: {words[-1] if words else error}") from error
    except (subprocess.TimeoutExpired, OSError) as error:
        raise PeerUnavailableError(f"installing {wanted} failed: {error}") from error
    marker.write_text(wanted)
    return home


def clean_environment(extra: dict[str, str]) -> dict[str, str]:
    """Our environment without proxies, so that nothing of a run leaves the loopback interface."""
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    return {**kept, "HF_HUB_OFFLINE": "1", **extra}
