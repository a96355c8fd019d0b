"""The work of `radixway ray deploy`, `status` and `delete` at a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray import serve
from ray.serve.schema import ApplicationStatusOverview

from radixway.core.config import Config
from radixway.gateway.ray_serve.application import build_app


class RayUnreachableError(Exception):
    """There is no Ray to be reached; the message says where one was looked for."""


class NotDeployedError(Exception):
    """The cluster has no application of that name."""


@contextmanager
def connect_ray(address: str | None) -> Iterator[None]:
    """Connected to the Ray at `address`, at RAY_ADDRESS, or on this machine. Raises RayUnreachableError."""
    try:
        ray.init(address=address or "auto", namespace="serve", log_to_driver=False)
    except ConnectionError as error:
        raise RayUnreachableError(
            f"no Ray can be reached at {address or 'RAY_ADDRESS or on this machine'}"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def deploy_application(config: Config) -> ApplicationStatusOverview:
    """Deploy, and wait until all replicas run; deployed again, it is changed, and only what differs restarts.

    Serve's proxies listen where the gateway would, unless they run already. Raises RuntimeError, in Ray's
    words, when replicas cannot be started.
    """
    serve.start(http_options={"host": config.gateway.host, "port": config.gateway.port})
    serve.run(build_app(config), name=config.ray.application, route_prefix=config.ray.route_prefix)
    return find_status(config.ray.application)


def find_status(application: str) -> ApplicationStatusOverview:
    """Return the state of `application`, deployment by deployment. Raises NotDeployedError."""
    known = serve.status().applications
    if application not in known:
        others = ", ".join(sorted(known)) or "none at all"
        raise NotDeployedError(f"there is no application {application!r} in this cluster; there are {others}")
    return known[application]


def delete_application(application: str) -> None:
    """End `application`: gateways first finish their requests. Raises NotDeployedError."""
    find_status(application)
    serve.delete(application)
