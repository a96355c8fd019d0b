"""Ray's prefix tree as an actor, and a router's client of it, or of Ray's own `PrefixTreeActor`."""

import time
from collections.abc import Sequence
from typing import Any

import ray
from ray.actor import ActorHandle

from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings
from radixway.cluster.prefix_router.tenant_prefix_tree import TenantPrefixTree


class TenantPrefixActor(TenantPrefixTree):
    """A tree in an actor, whose attributes are read and set by name."""

    def getattr(self, attribute: str) -> Any:
        """Return a copy of `attribute`."""
        return getattr(self, attribute)

    def setattr(self, attribute: str, value: Any) -> None:
        """Set `attribute` to `value`."""
        setattr(self, attribute, value)


PrefixTreeActor = ray.remote(TenantPrefixActor)
"""Under the name that Ray published."""


class TreeActorClient:
    """A router's calls of a tree actor. Only `find_preferred` waits for it.

    Ray keeps the order of one process's calls, so that a lookup sees what was reported before it.
    """

    def __init__(self, actor: ActorHandle[Any], settings: PrefixSettings) -> None:
        self._actor = actor
        self._settings = settings
        self._replicas: set[str] = set()
        self.evicts = False
        """The actor has been told to evict."""

    async def find_preferred(self, text: str, replicas: Sequence[str]) -> Sequence[str]:
        """Return those of `replicas` that have seen enough of `text`, else the ones with the fewest."""
        seen, tenants = await self._actor.prefix_match.remote(text, list(replicas))
        if len(seen) < self._settings.match_rate_threshold * len(text):
            tenants = await self._actor.get_smallest_tenants.remote()
        return [replica for replica in replicas if replica in (tenants or ())]

    def update_replicas(self, replicas: set[str]) -> None:
        """Make new `replicas` known to the actor and have it forget those that are gone."""
        if added := sorted(replicas - self._replicas):
            self._actor.add_tenants.remote(added, time.time())
        if gone := sorted(self._replicas - replicas):
            self._actor.remove_tenants.remote(gone)
        self._replicas = replicas
        settings = self._settings
        if settings.do_eviction and not self.evicts:
            self._actor.start_eviction_loop.remote(
                settings.eviction_threshold_chars,
                settings.eviction_target_chars,
                settings.eviction_interval_secs,
            )
            self.evicts = True

    def remove_replica(self, replica: str) -> None:
        """Have the actor forget `replica`."""
        self._replicas.discard(replica)
        self._actor.remove_tenants.remote([replica])

    def report_prompt(self, text: str, replica: str) -> None:
        """Report that `replica` has been sent `text`."""
        self._actor.insert.remote(text, replica, time.time())


def join_prompt_text(args: Sequence[Any]) -> str:
    """Return the text of the first of `args` that has `messages` or a `prompt`, without roles and pictures.

    Raises ValueError where none has.
    """
    for arg in args:
        for name in ("messages", "prompt"):
            if (prompt := getattr(arg, name, None)) is not None:
                return _join_text(prompt)
    raise ValueError("no argument of the call has messages or a prompt")


def _join_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "".join(map(_join_text, value))
    if isinstance(value, dict):
        text = value.get("text")
        return text if isinstance(text, str) else _join_text(value.get("content"))
    return _join_text(getattr(value, "content", None)) if hasattr(value, "content") else ""
