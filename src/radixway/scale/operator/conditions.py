"""Status conditions: what is true of a resource, since when, and why."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from radixway.scale.operator.resources import ModelSpec, Object

_LONGEST_MESSAGE = 32768
"""Of a condition: an API server takes no status at all with a longer one."""


class Condition(NamedTuple):
    """`status` is True, False or Unknown; `reason` one word in CamelCase."""

    type: str
    status: str
    reason: str
    message: str = ""


def merged_conditions(
    old: list[Object] | None, new: list[Condition], generation: int, now: datetime
) -> list[Object]:
    """`new` as the API has them; one whose status is as it was keeps the time of its last change."""
    before = {each["type"]: each for each in old or ()}
    told = []
    for condition in new:
        known = before.get(condition.type)
        same = known is not None and known["status"] == condition.status
        since = known["lastTransitionTime"] if known and same else now.strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"message": condition.message[:_LONGEST_MESSAGE], "lastTransitionTime": since}
        told.append(condition._asdict() | said | {"observedGeneration": generation})
    return told


def model_conditions(spec: ModelSpec, stateful_set: Object | None) -> list[Condition]:
    """Of a `Model` whose pool has been applied, by what its StatefulSet says."""
    reconciled = Condition("Reconciled", "True", "Applied", "all objects of the pool are as wanted")
    if stateful_set is None or "status" not in stateful_set:
        waiting = Condition("Available", "Unknown", "NotObserved", "nothing is known of the workers yet")
        return [reconciled, waiting]
    status = stateful_set["status"]
    ready, wanted = status.get("readyReplicas", 0), stateful_set["spec"].get("replicas", 1)
    current = status.get("observedGeneration", 0) >= stateful_set["metadata"]["generation"]
    updated = status.get("updatedReplicas", 0)
    if not current or updated < wanted or ready < wanted:
        message = f"{ready} of {wanted} workers are ready, {updated} are of the latest specification"
        progress = Condition("Progressing", "True", "RollingOut", message)
    else:
        progress = Condition("Progressing", "False", "Done", f"all {wanted} workers are ready")
    if wanted == 0:
        available = Condition("Available", "False", "ScaledToZero", "there are to be no workers")
    elif ready:
        available = Condition("Available", "True", "WorkersReady", f"{ready} of {wanted} workers are ready")
    else:
        available = Condition("Available", "False", "NoWorkerReady", f"none of {wanted} workers is ready")
    return [reconciled, available, progress]
