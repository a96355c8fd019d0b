"""Status conditions: what is true of a resource, since when, and why."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from radixway.cluster.operator.resources import KubernetesObject, ModelSpec

_MAX_MESSAGE_CHARACTERS = 32768
"""Of a condition: an API server takes no status at all with a longer one."""


class StatusCondition(NamedTuple):
    """`status` is True, False or Unknown; `reason` one word in CamelCase."""

    type: str
    status: str
    reason: str
    message: str = ""


def merge_conditions(
    old: list[KubernetesObject] | None, new: list[StatusCondition], generation: int, now: datetime
) -> list[KubernetesObject]:
    """`new` as the API has them; one whose status is as it was keeps the time of its last change."""
    before = {each["type"]: each for each in old or ()}
    told = []
    for condition in new:
        known = before.get(condition.type)
        same = known is not None and known["status"] == condition.status
        since = known["lastTransitionTime"] if known and same else now.strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"message": condition.message[:_MAX_MESSAGE_CHARACTERS], "lastTransitionTime": since}
        told.append(condition._asdict() | said | {"observedGeneration": generation})
    return told


def model_conditions(spec: ModelSpec, stateful_set: KubernetesObject | None) -> list[StatusCondition]:
    """Of a `Model` whose pool has been applied, by what its StatefulSet says."""
    reconciled = StatusCondition("Reconciled", "True", "Applied", "all objects of the pool are as wanted")
    if stateful_set is None or "status" not in stateful_set:
        waiting = StatusCondition(
            "Available", "Unknown", "NotObserved", "nothing is known of the workers yet"
        )
        return [reconciled, waiting]
    status = stateful_set["status"]
    ready, wanted = status.get("readyReplicas", 0), stateful_set["spec"].get("replicas", 1)
    current = status.get("observedGeneration", 0) >= stateful_set["metadata"]["generation"]
    updated = status.get("updatedReplicas", 0)
    if not current or updated < wanted or ready < wanted:
        message = f"{ready} of {wanted} workers are ready, {updated} are of the latest specification"
        progress = StatusCondition("Progressing", "True", "RollingOut", message)
    else:
        progress = StatusCondition("Progressing", "False", "Done", f"all {wanted} workers are ready")
    if wanted == 0:
        available = StatusCondition("Available", "False", "ScaledToZero", "there are to be no workers")
    elif ready:
        available = StatusCondition(
            "Available", "True", "WorkersReady", f"{ready} of {wanted} workers are ready"
        )
    else:
        available = StatusCondition(
            "Available", "False", "NoWorkerReady", f"none of {wanted} workers is ready"
        )
    return [reconciled, available, progress]
