"""Which events have what reconciled; kopf calls these, one at a time for each object, and tries again."""

from __future__ import annotations

from typing import Any

import kopf

from radixway.scale.operator.cluster import Unreachable
from radixway.scale.operator.reconcile import Reconciler
from radixway.scale.operator.resources import GROUP, MANAGER, VERSION

_OURS = {"app.kubernetes.io/managed-by": MANAGER}
_DELAY_S = 5.0


def register_handlers(registry: kopf.OperatorRegistry, reconciler: Reconciler) -> None:
    """Nothing here needs a finalizer: what a `TransformerModel` owns is collected with it, and rules stay."""

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
