"""Make the cluster what a resource says, and the resource's status what the cluster says; at any time."""

import asyncio
import tempfile
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import yaml

from radixway.cluster.operator.cluster import Cluster, Refused
from radixway.cluster.operator.model_pool import build_pool_objects, build_replica_patch, stateful_set_name
from radixway.cluster.operator.resources import (
    GROUP,
    MANAGER,
    InvalidSpecError,
    KubernetesObject,
    ModelSpec,
    PolicySpec,
    parse_model_spec,
    parse_policy_spec,
)
from radixway.core.config import ConfigError
from radixway.core.config.semantic import load_semantic

FILE = "rules.yaml"


def render_rules(spec: PolicySpec) -> str:
    """The rules as the file that gateways read. Raises ConfigError, in gateways' own words."""
    text = yaml.safe_dump(spec.rules, allow_unicode=True, sort_keys=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        path.write_text(text, encoding="utf-8")
        try:
            load_semantic(path)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(path), FILE)) from None
    return text


def rules_checksum(text: str) -> str:
    """Tells one text of rules from another."""
    return sha256(text.encode()).hexdigest()[:12]


def build_config_map(owner: KubernetesObject, spec: PolicySpec, text: str) -> KubernetesObject:
    """Build a ConfigMap without an owner: rules outlive their policy, because gateways cannot start without
    any."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": spec.config_map,
            "namespace": owner["metadata"]["namespace"],
            "labels": {"app.kubernetes.io/managed-by": MANAGER},
            "annotations": {f"{GROUP}/policy": owner["metadata"]["name"]},
        },
        "data": {FILE: text},
    }


def find_winning_policy(policies: list[KubernetesObject], config_map: str) -> str | None:
    """Return the name of the policy that owns `config_map`: the oldest of `policies`, then by name."""
    rivals = [
        (each["metadata"]["creationTimestamp"], each["metadata"]["name"])
        for each in policies
        if "deletionTimestamp" not in each["metadata"] and _claims_config_map(each, config_map)
    ]
    return min(rivals)[1] if rivals else None


def _claims_config_map(policy: KubernetesObject, config_map: str) -> bool:
    """Return whether a policy claims the ConfigMap; an unreadable policy claims nothing, or all would
    fail."""
    try:
        return parse_policy_spec(policy).config_map == config_map
    except InvalidSpecError:
        return False


_MAX_MESSAGE_CHARACTERS = 32768
"""API servers refuse longer messages of a condition."""


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
    merged = []
    for condition in new:
        known = before.get(condition.type)
        same = known is not None and known["status"] == condition.status
        since = known["lastTransitionTime"] if known and same else now.strftime("%Y-%m-%dT%H:%M:%SZ")
        details = {"message": condition.message[:_MAX_MESSAGE_CHARACTERS], "lastTransitionTime": since}
        merged.append(condition._asdict() | details | {"observedGeneration": generation})
    return merged


def model_conditions(spec: ModelSpec, stateful_set: KubernetesObject | None) -> list[StatusCondition]:
    """Return the conditions of a `Model` by its StatefulSet's status."""
    reconciled = StatusCondition("Reconciled", "True", "Applied", "all objects of the pool are as wanted")
    if stateful_set is None or "status" not in stateful_set:
        unknown = "nothing is known of the workers yet"
        return [reconciled, StatusCondition("Available", "Unknown", "NotObserved", unknown)]
    status = stateful_set["status"]
    ready, wanted = status.get("readyReplicas", 0), stateful_set["spec"].get("replicas", 1)
    current = status.get("observedGeneration", 0) >= stateful_set["metadata"]["generation"]
    updated = status.get("updatedReplicas", 0)
    share = f"{ready} of {wanted} workers are ready"
    if not current or updated < wanted or ready < wanted:
        progress = ("True", "RollingOut", f"{share}, {updated} are of the latest specification")
    else:
        progress = ("False", "Done", f"all {wanted} workers are ready")
    if wanted == 0:
        available = ("False", "ScaledToZero", "there are to be no workers")
    elif ready:
        available = ("True", "WorkersReady", share)
    else:
        available = ("False", "NoWorkerReady", f"none of {wanted} workers is ready")
    return [reconciled, StatusCondition("Available", *available), StatusCondition("Progressing", *progress)]


Clock = Callable[[], datetime]


class Reconciler:
    """Applies `Model`s and policies. Every call raises Unreachable where it must be retried."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    async def reconcile_model(self, namespace: str, name: str) -> None:
        """A `Model`: its pool is applied, and its status says how that is."""
        subject = await self._cluster.get("Model", namespace, name)
        if subject is None or "deletionTimestamp" in subject["metadata"]:
            return
        try:
            spec = parse_model_spec(subject)
            stateful_set = await self._apply_pool(subject, spec)
        except (InvalidSpecError, Refused) as error:
            reason = "InvalidSpec" if isinstance(error, InvalidSpecError) else "Refused"
            failed = StatusCondition("Reconciled", "False", reason, str(error))
            await self._write_status(subject, {}, [failed])
            return
        seen = {} if stateful_set is None else stateful_set.get("status", {})
        counts = {name: seen.get(name, 0) for name in ("replicas", "readyReplicas")}
        counts["selector"] = f"app=vllm-worker,model={name}"
        await self._write_status(subject, counts, model_conditions(spec, stateful_set))

    async def _apply_pool(self, subject: KubernetesObject, spec: ModelSpec) -> KubernetesObject | None:
        namespace, name = subject["metadata"]["namespace"], stateful_set_name(subject["metadata"]["name"])
        for wanted in build_pool_objects(subject, spec):
            await self._cluster.apply(wanted)
        if (number := build_replica_patch(subject, spec)) is not None:
            await self._cluster.delete("HorizontalPodAutoscaler", namespace, name)
            await self._cluster.apply(number, f"{MANAGER}-replicas")
        return await self._cluster.get("StatefulSet", namespace, name)

    async def reconcile_policy(self, namespace: str, name: str) -> None:
        """Reconcile a `RouterPolicy`: write its rules for gateways if valid and no other came first."""
        subject = await self._cluster.get("RouterPolicy", namespace, name)
        if subject is None or "deletionTimestamp" in subject["metadata"]:
            return
        status = {key: value for key, value in subject.get("status", {}).items() if key == "checksum"}
        try:
            spec = parse_policy_spec(subject)
            first = find_winning_policy(await self._cluster.list("RouterPolicy", namespace), spec.config_map)
            if first != name:
                status = dict.fromkeys(status)  # a merge patch takes away what is null
                outcome = ("False", "Conflict", f"{spec.config_map} has the rules of {first}")
            else:
                text = await asyncio.to_thread(render_rules, spec)
                await self._cluster.apply(build_config_map(subject, spec, text))
                status = {"checksum": rules_checksum(text)}
                outcome = ("True", "Written", f"gateways that mount {spec.config_map} follow it")
        except (InvalidSpecError, ConfigError) as error:
            outcome = ("False", "InvalidRules", str(error))
        except Refused as error:
            outcome = ("False", "Refused", str(error))
        await self._write_status(subject, status, [StatusCondition("Accepted", *outcome)])

    async def reconcile_policies(self, namespace: str, *, but: str | None = None) -> None:
        """Reconcile all policies of a namespace but `but`, after one has gone or wants another file."""
        for each in await self._cluster.list("RouterPolicy", namespace):
            if (name := each["metadata"]["name"]) != but:
                await self.reconcile_policy(namespace, name)

    async def _write_status(
        self, subject: KubernetesObject, status: KubernetesObject, conditions: list[StatusCondition]
    ) -> None:
        generation = subject["metadata"]["generation"]
        old = subject.get("status", {}).get("conditions")
        merged = merge_conditions(old, conditions, generation, self._clock())
        status |= {"observedGeneration": generation, "conditions": merged}
        await self._cluster.set_status(subject, status)
