"""The operator as a process: kopf with our handlers, until `stop` is set."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import kopf

from radixway.cluster.operator.cluster import Cluster, Unreachable
from radixway.cluster.operator.reconciler import Reconciler
from radixway.cluster.operator.resources import GROUP, MANAGER, VERSION

_OURS = {"app.kubernetes.io/managed-by": MANAGER}
_DELAY_S = 5.0


def register_handlers(registry: kopf.OperatorRegistry, reconciler: Reconciler) -> None:
    """Register handlers. None needs a finalizer: what a `Model` owns is collected with it, and rules stay."""

    async def model(namespace: str | None, name: str, **_: Any) -> None:
        try:
            await reconciler.reconcile_model(namespace or "", name)
        except Unreachable as error:
            raise kopf.TemporaryError(str(error), delay=_DELAY_S) from None

    async def policy(namespace: str | None, name: str, **_: Any) -> None:
        try:
            await reconciler.reconcile_policy(namespace or "", name)
            await reconciler.reconcile_policies(
                namespace or "", but=name
            )  # it may have left, or taken, another's file
        except Unreachable as error:
            raise kopf.TemporaryError(str(error), delay=_DELAY_S) from None

    async def policy_is_gone(type: str, namespace: str | None, **_: Any) -> None:
        if type == "DELETED":
            await reconciler.reconcile_policies(namespace or "")

    async def pool_changed(namespace: str | None, labels: Any, **_: Any) -> None:
        await reconciler.reconcile_model(namespace or "", labels["model"])

    for on in (kopf.on.create, kopf.on.update, kopf.on.resume):
        on(GROUP, VERSION, "models", registry=registry, id="model")(model)
        on(GROUP, VERSION, "routerpolicies", registry=registry, id="policy")(policy)
    kopf.on.event(GROUP, VERSION, "routerpolicies", registry=registry)(policy_is_gone)
    kopf.on.event("apps", "v1", "statefulsets", labels={**_OURS, "model": kopf.PRESENT}, registry=registry)(
        pool_changed
    )


class ClusterNotConfiguredError(Exception):
    """No API server is configured."""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Options of the command line."""

    namespaces: tuple[str, ...] = ()
    """Watched namespaces; empty: all, which needs a ClusterRole."""
    server: str | None = None
    """An API server that asks for no credentials (`kubectl proxy`). None: the pod's, or a kubeconfig's."""
    liveness: str | None = None
    """URL where `/healthz` is served: `http://0.0.0.0:8080/healthz`."""


async def run_operator(
    settings: OperatorSettings, stop: asyncio.Event, on_ready: Callable[[], None] | None = None
) -> None:
    """Run until `stop` is set. Raises ClusterNotConfiguredError, and kopf's errors of a failed login."""
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
    is_ready = asyncio.create_task(ready.wait())
    await asyncio.wait({running, is_ready}, return_when=asyncio.FIRST_COMPLETED)
    if on_ready is not None and not running.done():
        on_ready()
    is_ready.cancel()
    await running


def _make_kopf_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: annotations under our name, and watches of five minutes, so that dead
    connections are noticed."""
    settings = kopf.OperatorSettings()
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"operator.{GROUP}")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=f"operator.{GROUP}")
    settings.watching.server_timeout = 300
    settings.persistence.consistency_timeout = (
        1.0  # of waiting for our own patches; reconciling twice does no harm
    )
    settings.posting.enabled = False
    return settings
