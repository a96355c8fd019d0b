"""Tools that come as wheels and are no library of ours: installed once, into the tests' cache."""

import subprocess
import sys
from pathlib import Path

from support.kustomize import installing


def pip_packages(name: str, *packages: str) -> Path:
    """A folder with the packages, and their programs in `bin`; the first call installs them."""
    with installing(name) as home:
        if not (home / "installed").exists():
            home.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
            command += ["--no-deps", "--upgrade", "--target", str(home), *packages]
            subprocess.run(command, check=True, timeout=300, stdout=sys.stderr)
            (home / "installed").touch()
    return home
