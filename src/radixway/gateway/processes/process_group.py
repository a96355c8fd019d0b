"""The settings of a child, and its view of its siblings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from radixway.cluster.load_sync import UnixTransport
from radixway.cluster.session_ownership import GatewayFleet
from radixway.core.config import Config, SyncConfig
from radixway.gateway.processes.control_messages import GroupChanged, ProcessMember

FIRST_SLOT = 0
"""The child in it has what there is once: chats, the console, the planner, what administrators change."""

_LOAD_INTERVAL_S = 0.02
"""How old what siblings know of a child's load may be (docs/decisions/0018 has what it costs)."""


def slot_url(slot: int) -> str:
    """Return the URL that names the child of `slot`; it resolves nowhere."""
    return f"http://process-{slot}"


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """The settings of a child: pickled by the supervisor, which reads the configuration."""

    config: Config
    slot: int
    count: int
    name: str
    directory: Path
    """Sockets of the children; only this user may enter it."""
    key: str
    """Signs what children pass on to each other."""
    listener_fds: tuple[int, ...]
    """The listening sockets, by slot."""

    @property
    def http_path(self) -> Path:
        """The socket at which its siblings reach this child."""
        return http_path(self.directory, self.name)


def http_path(directory: Path, name: str) -> Path:
    """Return the socket of the child `name` for its siblings' requests."""
    return directory / f"{name}.http"


def load_path(directory: Path, name: str) -> Path:
    """Return the socket at which the child `name` publishes its load."""
    return directory / f"{name}.load"


@dataclass(slots=True)
class ProcessGroup:
    """A child's view of all children, by the supervisor's latest message."""

    slot: int
    count: int
    name: str
    directory: Path
    key: str
    pid: int = field(default_factory=os.getpid)
    members: tuple[ProcessMember, ...] = ()
    on_change: list[Callable[[], None]] = field(default_factory=list)
    """Called when `members` changed."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_first(self) -> bool:
        """Return whether this child has what there is once."""
        return self.slot == FIRST_SLOT

    def own_config(self, config: Config) -> Config:
        """Return `config` as this child has it: a peer of the others, without what the first does for all."""
        scale: dict[str, Any] = {}
        if config.scale.sync is None:
            own = f"ipc://{load_path(self.directory, self.name)}"
            scale["sync"] = SyncConfig(bind=own, peers=(own,), interval_s=_LOAD_INTERVAL_S)
        changed: dict[str, Any] = {}
        if not self.is_first:
            scale["planner"] = None
            changed["console"] = config.console.model_copy(update={"enabled": False})
            changed["semantic_cache"] = config.semantic_cache.model_copy(update={"persist": None})
            if config.chat.redis is None:
                changed["chat"] = config.chat.model_copy(update={"enabled": False})
        return config.model_copy(update=changed | {"scale": config.scale.model_copy(update=scale)})

    def make_load_transport(self, config: Config) -> UnixTransport | None:
        """Return what carries loads between the children; None where `scale.sync` of `config` does."""
        return UnixTransport(load_path(self.directory, self.name)) if config.scale.sync is None else None

    @property
    def fleet(self) -> GatewayFleet:
        """The children as gateways that own sessions."""
        return GatewayFleet(slot_url(self.slot), [slot_url(slot) for slot in range(self.count)])

    def owns_session(self, session_id: str) -> bool:
        """Return whether the session is this child's, whoever it was before."""
        return self.fleet.find_owner(session_id) == slot_url(self.slot)

    def traffic_key(self) -> bytes:
        """Return the key by which all children name the blocks of recorded traffic."""
        return blake2b(b"traffic", key=self.key.encode()[:64], digest_size=32).digest()

    def apply_change(self, change: GroupChanged) -> None:
        """Take in the supervisor's message."""
        self.members = tuple(change.members)
        self._changed.set()
        for notify in self.on_change:
            notify()

    async def wait_joined(self) -> None:
        """Wait until the siblings know of this child."""
        while not any(member.name == self.name for member in self.members):
            self._changed.clear()
            await self._changed.wait()

    @property
    def is_leaving(self) -> bool:
        """Return whether a successor has replaced this child."""
        return any(each.name == self.name and each.state == "leaving" for each in self.members)

    def path_of_slot(self, slot: int) -> Path | None:
        """Return the socket of the child that serves `slot` now; None while there is none."""
        for member in self.members:
            if member.slot == slot and member.state == "serving":
                return http_path(self.directory, member.name)
        return None

    def living_paths(self) -> set[Path]:
        """Return the sockets of all children, those that join or leave among them."""
        return {http_path(self.directory, member.name) for member in self.members}

    async def wait_slot(self, slot: int, timeout_s: float, *, after: Path | None = None) -> Path | None:
        """Wait until a child serves `slot`; return its socket, or None once `timeout_s` is over.

        `after`: the socket of its predecessor, which does not answer although it may still be listed.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while (path := self.path_of_slot(slot)) in (None, after):
                    self._changed.clear()
                    await self._changed.wait()
                return path
        return None

    def other_slots(self) -> list[int]:
        """Return the slots of the siblings that serve, the first before the others."""
        serving = (member.slot for member in self.members if member.state == "serving")
        return sorted(slot for slot in serving if slot != self.slot)

    def other_names(self) -> list[str]:
        """Return the names of all other children, those that join or leave among them."""
        return [member.name for member in self.members if member.name != self.name]
