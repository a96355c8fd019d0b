"""Make the cluster what a resource says, and the resource's status what the cluster says; at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from radixway.config import ConfigError
from radixway.scale.operator.cluster import Cluster, Refused
from radixway.scale.operator.conditions import Condition, merged_conditions, model_conditions
from radixway.scale.operator.pool import pool_of, replicas_of, set_name
from radixway.scale.operator.resources import MANAGER, BadSpec, ModelSpec, Object, model_spec, policy_spec
from radixway.scale.operator.rules import checksum, config_map_of, text_of, winner

Clock = Callable[[], datetime]
"""UTC."""


class Reconciler:
    """Every call raises Unreachable where it has to be called again."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    async def model(self, namespace: str, name: str) -> None:
        """A `Model`: its pool is applied, and its status says how that is."""
        subject = await self._cluster.get("Model", namespace, name)
        if subject is None or "deletionTimestamp" in subject["metadata"]:
            return
        try:
            spec = model_spec(subject)
            stateful_set = await self._apply(subject, spec)
        except (BadSpec, Refused) as error:
            reason = "InvalidSpec" if isinstance(error, BadSpec) else "Refused"
            await self._say(subject, {}, [Condition("Reconciled", "False", reason, str(error))])
            return
        seen = {} if stateful_set is None else stateful_set.get("status", {})
        counts = {
            "replicas": seen.get("replicas", 0),
            "readyReplicas": seen.get("readyReplicas", 0),
            "selector": f"app=vllm-worker,model={name}",
        }
        await self._say(subject, counts, model_conditions(spec, stateful_set))

    async def _apply(self, subject: Object, spec: ModelSpec) -> Object | None:
        """The StatefulSet as it is then."""
        namespace, name = subject["metadata"]["namespace"], set_name(subject["metadata"]["name"])
        for wanted in pool_of(subject, spec):
            await self._cluster.apply(wanted)
        if (number := replicas_of(subject, spec)) is not None:
            await self._cluster.delete("HorizontalPodAutoscaler", namespace, name)
            await self._cluster.apply(number, f"{MANAGER}-replicas")
        return await self._cluster.get("StatefulSet", namespace, name)

    async def policy(self, namespace: str, name: str) -> None:
        """A `RouterPolicy`: its rules are written for gateways, if they can be used and nobody came first."""
        subject = await self._cluster.get("RouterPolicy", namespace, name)
        if subject is None or "deletionTimestamp" in subject["metadata"]:
            return
        in_force = {key: value for key, value in subject.get("status", {}).items() if key == "checksum"}
        try:
            spec = policy_spec(subject)
            first = winner(await self._cluster.list("RouterPolicy", namespace), spec.config_map)
            if first != name:
                said = f"{spec.config_map} has the rules of {first}"
                no_more = dict.fromkeys(in_force)  # a merge patch takes away what is null
                await self._say(subject, no_more, [Condition("Accepted", "False", "Conflict", said)])
                return
            text = await asyncio.to_thread(text_of, spec)
            await self._cluster.apply(config_map_of(subject, spec, text))
        except (BadSpec, ConfigError) as error:
            await self._say(subject, in_force, [Condition("Accepted", "False", "InvalidRules", str(error))])
        except Refused as error:
            await self._say(subject, in_force, [Condition("Accepted", "False", "Refused", str(error))])
        else:
            said = f"gateways that mount {spec.config_map} follow it"
            accepted = Condition("Accepted", "True", "Written", said)
            await self._say(subject, {"checksum": checksum(text)}, [accepted])

    async def policies(self, namespace: str, *, but: str | None = None) -> None:
        """All of a namespace, as after one of them has gone, or (all others) after it wants another file."""
        for each in await self._cluster.list("RouterPolicy", namespace):
            if (name := each["metadata"]["name"]) != but:
                await self.policy(namespace, name)

    async def _say(self, subject: Object, status: Object, conditions: list[Condition]) -> None:
        generation = subject["metadata"]["generation"]
        old = subject.get("status", {}).get("conditions")
        told = merged_conditions(old, conditions, generation, self._clock())
        status |= {"observedGeneration": generation, "conditions": told}
        await self._cluster.set_status(subject, status)
