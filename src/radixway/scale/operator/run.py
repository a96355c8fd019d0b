"""The operator as a process: kopf with our handlers, until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import kopf

from radixway.scale.operator.cluster import Cluster
from radixway.scale.operator.handlers import register_handlers
from radixway.scale.operator.reconcile import Reconciler
from radixway.scale.operator.resources import GROUP


class ClusterNotConfiguredError(Exception):
    """Nothing says which API server is meant."""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """What the command line says."""

    namespaces: tuple[str, ...] = ()
    """Those that are looked after; none: all, which needs a ClusterRole."""
    server: str | None = None
    """An API server that asks for no credentials (`kubectl proxy`). None: the pod's, or a kubeconfig's."""
    liveness: str | None = None
    """Where `/healthz` is served: `http://0.0.0.0:8080/healthz`."""


async def run_operator(
    settings: OperatorSettings, stop: asyncio.Event, on_ready: Callable[[], None] | None = None
) -> None:
    """Run until `stop` is set. Raises ClusterNotConfiguredError, and what kopf raises where it cannot log
    in.
    """
    registry = kopf.OperatorRegistry()
    kopf_settings = _make_kopf_settings()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        if settings.server is not None:
            return kopf.ConnectionInfo(server=settings.server)
        found = kopf.login_with_service_account(settings=kopf_settings)
        found = found or kopf.login_with_kubeconfig(settings=kopf_settings)
        if found is None:
            raise ClusterNotConfiguredError(
                "this is no pod with a service account, and there is no kubeconfig"
            )
        return found

    await login()
    kopf.on.login(registry=registry)(login)
    register_handlers(registry, Reconciler(Cluster(login), lambda: datetime.now(UTC)))
    ready = asyncio.Event()
    running = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=kopf_settings,
            namespaces=settings.namespaces,
            clusterwide=not settings.namespaces,
            standalone=True,
            liveness_endpoint=settings.liveness,
            stop_flag=stop,
            ready_flag=ready,
        )
    )
    told = asyncio.create_task(ready.wait())
    await asyncio.wait({running, told}, return_when=asyncio.FIRST_COMPLETED)
    if on_ready is not None and not running.done():
        on_ready()
    told.cancel()
    await running


def _make_kopf_settings() -> kopf.OperatorSettings:
    """Its annotations under our name, and watches of five minutes: dead connections are noticed then."""
    told = kopf.OperatorSettings()
    told.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"operator.{GROUP}")
    told.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=f"operator.{GROUP}")
    told.watching.server_timeout = 300
    told.persistence.consistency_timeout = (
        1.0  # of waiting for our own patches; reconciling twice does no harm
    )
    told.posting.enabled = False
    return told
