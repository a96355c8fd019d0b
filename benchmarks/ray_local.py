"""A Ray with Serve on this machine, for as long as a benchmark runs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator

import ray
from ray import serve

from processes import free_ports


@contextlib.contextmanager
def local_ray() -> Iterator[str]:
    """Started and stopped here, with ports and a folder of its own; gives the URL of Serve's proxy."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="rw-", dir="/tmp") as home:  # sockets' paths must be short
        ray.init(
            num_cpus=16,  # of Ray's counting
            include_dashboard=False,
            object_store_memory=100 * 2**20,
            _temp_dir=home,
            log_to_driver=False,
        )
        try:
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            yield f"http://127.0.0.1:{port}"
        finally:
            ray.shutdown()
