"""`radixway ray`: the gateway and its engines in a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer import Argument, Option

from radixway.cli.options import load_options
from radixway.cli.terminal import exit_on, exit_without_extra, out
from radixway.core.config import ConfigError

if TYPE_CHECKING:
    from ray.serve.schema import ApplicationStatusOverview

ray_app = typer.Typer(help="The gateway and its engines in a Ray cluster.", no_args_is_help=True)

Address = Annotated[
    str | None, Option(help="The cluster; default: the one of this machine.", envvar="RAY_ADDRESS")
]
Application = Annotated[str, Option("--name", help="The application.", metavar="NAME")]


@ray_app.command("deploy")
def ray_deploy(
    config: Annotated[
        Path | None, Argument(help="Default: ./radixway.yaml if there is one.", metavar="CONFIG")
    ] = None,
    address: Address = None,
) -> None:
    """Deploy what a configuration's `ray` section says.

    What was deployed before is changed.
    """
    settings = load_options(config)
    from radixway.cli.quickstart import check_exposure

    with exit_on(ConfigError):
        check_exposure(settings)
    with _ray_cluster(address):
        from radixway.gateway.ray_serve.application import deploy_application

        _print_status(deploy_application(settings))


@ray_app.command("status")
def ray_status(name: Application = "radixway", address: Address = None) -> None:
    """Show how the application and its replicas are."""
    with _ray_cluster(address):
        from radixway.gateway.ray_serve.application import find_status

        _print_status(find_status(name))


@ray_app.command("delete")
def ray_delete(name: Application = "radixway", address: Address = None) -> None:
    """End the application; Ray itself stays."""
    with _ray_cluster(address):
        from radixway.gateway.ray_serve.application import delete_application

        delete_application(name)
    out.print(f"{name} is deleted")


@contextmanager
def _ray_cluster(address: str | None) -> Iterator[None]:
    """Connect to the Ray cluster at `address`. A mistake, here or within the block, ends the command."""
    with exit_without_extra("Ray", "ray"):
        from radixway.gateway.ray_serve.application import NotDeployedError, RayUnreachableError, connect_ray
    with exit_on(RayUnreachableError, NotDeployedError, RuntimeError), connect_ray(address):
        yield


def _print_status(application: ApplicationStatusOverview) -> None:
    table = Table("deployment", "status", "replicas", box=None, pad_edge=False)
    for name, deployment in application.deployments.items():
        replicas = ", ".join(f"{count} {state.lower()}" for state, count in deployment.replica_states.items())
        table.add_row(name, deployment.status.value.lower(), replicas)
    out.print(f"application {application.status.value.lower()}  {application.message}".rstrip())
    out.print(table, soft_wrap=False)
