"""Connections of a child to its siblings, over the Unix sockets of their private directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from radixway.cluster.session_ownership import PeerConnections, make_session
from radixway.gateway.processes.process_group import ProcessGroup, http_path, slot_url


class SiblingConnections(PeerConnections):
    """A pool for each sibling. Whoever serves a slot now is meant by its URL (`slot_url`)."""

    same_name = True

    def __init__(self, group: ProcessGroup) -> None:
        super().__init__()
        self._group = group
        self._slots = {slot_url(slot): slot for slot in range(group.count)}
        self._sessions: dict[Path, aiohttp.ClientSession] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Follow the siblings from now on."""
        self._group.on_change.append(self._drop_ended)

    def session_for(self, url: str) -> aiohttp.ClientSession:
        path = self._group.path_of_slot(self._slots[url])
        if path is None:
            raise ConnectionRefusedError("it is being started again")
        return self._session_of(path)

    def session_at(self, name: str) -> aiohttp.ClientSession:
        """Return the session that reaches the child `name`, whether it serves or not."""
        return self._session_of(http_path(self._group.directory, name))

    def _session_of(self, path: Path) -> aiohttp.ClientSession:
        session = self._sessions.get(path)
        if session is None:
            connector = aiohttp.UnixConnector(str(path), limit=0, keepalive_timeout=60)
            session = self._sessions[path] = make_session(connector)
        return session

    async def close(self) -> None:
        self._group.on_change.remove(self._drop_ended)
        await asyncio.gather(*self._closing, *(session.close() for session in self._sessions.values()))
        self._sessions.clear()

    def _drop_ended(self) -> None:
        """Close the pools of processes that have ended; those that leave finish their answers."""
        for path in [path for path in self._sessions if path not in self._group.living_paths()]:
            task = asyncio.get_running_loop().create_task(self._sessions.pop(path).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
