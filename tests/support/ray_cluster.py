"""A real Ray with Serve on this machine, and our application in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray import serve

from radixway.core.config import load_config
from radixway.gateway.ray_serve import build_app
from support.free_ports import find_port

ROUTER = "radixway.cluster.ray_router.PrefixAffinityRouter"


@dataclass
class RayApplication:
    """The application as clients and operators see it."""

    url: str
    address: str
    """Of Ray."""
    overrides: dict[str, Any]

    def deploy(self, gateways: int = 1, **engine: Any) -> None:
        """Deploy it with `engine` as the section of its engines; returns when all replicas run."""
        common = {"settings": {"dtype": "float32", "threads": 1}, "request_router_class": ROUTER}
        engines = [common | engine]
        config = load_config(
            overrides={**self.overrides, "ray": {"gateway": {"replicas": gateways}, "engines": engines}}
        )
        serve.run(build_app(config), name="radixway")

    def replicas(self, deployment: str) -> list[str]:
        """Names of the actors that are its replicas."""
        actors = [each["name"] for each in ray.util.list_named_actors(all_namespaces=True)]
        return [name for name in actors if name.startswith(f"SERVE_REPLICA::radixway#{deployment}#")]

    def kill(self, name: str) -> None:
        """As Ray kills actors: at once."""
        ray.kill(ray.get_actor(name, namespace="serve"))


@contextmanager
def ray_application(**overrides: Any) -> Iterator[RayApplication]:
    """A Ray of its own with Serve, in which nothing is deployed yet. `overrides`: as in radixway.yaml."""
    home = tempfile.mkdtemp(prefix="rw-", dir="/tmp")  # sockets' paths must be short
    port = find_port()
    try:
        _start(home)
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        address = ray.get_runtime_context().gcs_address
        yield RayApplication(f"http://127.0.0.1:{port}", address, overrides)
    finally:
        ray.shutdown()  # which Serve and the engines do not outlive
        shutil.rmtree(home, ignore_errors=True)


def _start(home: str) -> None:
    for attempt in range(3):
        try:
            ray.init(
                num_cpus=16,  # of Ray's counting: no more than the machine has will run at a time
                include_dashboard=False,
                object_store_memory=100 * 2**20,
                _temp_dir=home,
                log_to_driver=False,
            )
            return
        except Exception as error:  # Ray gives its own parts half a minute, which is little on a busy machine
            if attempt == 2 or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
