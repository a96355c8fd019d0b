"""`radixway operator`: Kubernetes resources become pools of workers and rules of gateways."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from radixway.cli.terminal import exit_on, exit_without_extra, on_stop_signal, out


def operator(
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RADIXWAY_OPERATOR_NAMESPACES", help="Look after this one; repeatable. Default: all."
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="An API server that asks for no credentials, as of kubectl proxy. "
            "Default: the pod's, or that of $KUBECONFIG.",
            metavar="URL",
        ),
    ] = None,
    liveness: Annotated[
        str | None, typer.Option(help="Serve liveness here: http://0.0.0.0:8080/healthz", metavar="URL")
    ] = None,
) -> None:
    """Run the Kubernetes operator: Model becomes a pool of workers, RouterPolicy gateways' rules."""
    with exit_without_extra("the operator", "operator"):
        from radixway.cluster.operator import ClusterNotConfiguredError, OperatorSettings, run_operator
    settings = OperatorSettings(tuple(namespace or ()), server, liveness)

    async def run() -> None:
        stop = asyncio.Event()
        on_stop_signal(stop.set)
        await run_operator(settings, stop, lambda: out.print("operator ready"))

    with exit_on(ClusterNotConfiguredError):
        asyncio.run(run())
