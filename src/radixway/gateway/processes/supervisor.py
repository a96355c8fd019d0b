"""The supervisor: starts the children, starts them again, rolls them over, ends them.

Each slot has a listening socket of its own, and all of them share one address, so that the kernel spreads
connections by their addresses (`SO_REUSEPORT`). The supervisor holds every one of these sockets, and every
child has all of them: what waits in the queue of a socket outlives the child that accepted there, and a
sibling accepts there until the successor does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from time import monotonic
from typing import Any

from radixway.core.config import Config, ConfigError
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.telemetry.metrics.multiprocess import DIRECTORY
from radixway.gateway.processes.control_messages import (
    ControlChannel,
    GroupChanged,
    ListeningEnded,
    ProcessFailed,
    ProcessJoined,
    ProcessMember,
    ProcessReady,
    decode_for_supervisor,
)
from radixway.gateway.processes.process_group import ProcessSettings
from radixway.gateway.processes.tenant_limits import LimitsAuthority

log = logging.getLogger(__name__)

_MAX_FAILED_STARTS = 5
"""Starts of a slot in a row that fail before the command gives up."""
_RESTART_AFTER_S = (0.1, 30.0)
"""First and longest pause before a child is started again; it doubles."""
_LIVED_S = 60.0
"""A child that lived so long restarts with the first pause."""
_START_TIMEOUT_S = 300.0
_LEAVE_S = 1.0
"""How long a child that is replaced reads first requests from connections that it has accepted."""
_END_TIMEOUT_S = 60.0
"""Time for a child to end, beside its drain."""
_MAX_DIRECTORY_CHARS = 70
"""Paths of Unix sockets have at most 107 bytes."""


class ProcessFailedError(Exception):
    """A child could not be started; the message says why."""


@dataclass(slots=True, eq=False)
class ChildProcess:
    """A child, from its start to its end."""

    slot: int
    name: str
    config: Config
    process: asyncio.subprocess.Process
    channel: ControlChannel
    ready: asyncio.Future[None]
    """Set when it serves; ProcessFailedError when it ended before."""
    started_at: float = field(default_factory=monotonic)
    state: str = "starting"
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def terminate(self) -> None:
        """Ask it to finish its requests and end; asked again it ends at once."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)


class ProcessSupervisor:
    """Runs a gateway's children on `listeners`, one for each. Belongs to one event loop."""

    def __init__(
        self,
        config: Config,
        listeners: Sequence[socket.socket],
        reload_config: Callable[[], Config],
        limits: LimitsAuthority,
    ) -> None:
        """`reload_config`: called at SIGHUP, in a thread; raises ConfigError for what cannot be used.

        `limits`: judges the requests of tenants with limits for all children.
        """
        self._config = config
        self._listeners = listeners
        self._reload_config = reload_config
        self._limits = limits
        self._children: list[ChildProcess] = []
        self._serving: dict[int, ChildProcess] = {}
        """By slot, the child that serves; during a roll its successor."""
        self._generation = 0
        self._failed_starts = 0
        """In a row, since a child was last ready."""
        self._pauses: dict[int, float] = {}
        """By slot, the latest pause before a restart."""
        self._key = secrets.token_hex(32)
        self._roll_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._failure: ProcessFailedError | None = None
        parent = None if len(gettempdir()) < _MAX_DIRECTORY_CHARS else "/tmp"
        self._directory = TemporaryDirectory(prefix="radixway-", dir=parent)  # only this user may enter it

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Start all children, call `on_ready`, and keep them running until `stop`.

        Raises ProcessFailedError: one of them cannot be started.
        """
        with self._directory:
            try:
                first = [await self._start_child(slot, self._config) for slot in range(len(self._listeners))]
                stopping: asyncio.Future[Any] = asyncio.create_task(self._stopping.wait())
                ready: asyncio.Future[Any] = asyncio.gather(*(child.ready for child in first))
                await asyncio.wait([stopping, ready], return_when=asyncio.FIRST_COMPLETED)
                if not self._stopping.is_set():
                    await ready
                    on_ready()
                    await stopping
                stopping.cancel()
            finally:
                self._stopping.set()
                await cancel_tasks(list(self._tasks))
                await self._end_children()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Have all children finish their requests and end; called again, have them end at once."""
        if self._stopping.is_set():
            for child in self._children:
                child.terminate()
        self._stopping.set()

    def roll(self) -> None:
        """Read the configuration again and replace one child after the other; a bad one is logged."""
        self._run_task(self._roll())

    async def _roll(self) -> None:
        async with self._roll_lock:
            try:
                config = _with_fixed_address(await asyncio.to_thread(self._reload_config), self._config)
            except ConfigError as error:
                log.error("the configuration is not reloaded, all processes go on as they are: %s", error)
                return
            before, self._config = self._config, config
            self._limits.set_tenants(config.tenants)
            replaced: list[int] = []
            for slot in range(len(self._listeners)):
                failure = await self._replace_child(slot, config)
                if failure is not None:
                    log.error("the new configuration is not in force: %s", failure)
                    self._config = before
                    self._limits.set_tenants(before.tenants)
                    for changed in replaced:
                        await self._replace_child(changed, before)
                    return
                replaced.append(slot)
            log.info("all %d processes have the configuration that was read again", len(self._listeners))

    async def _replace_child(self, slot: int, config: Config) -> ProcessFailedError | None:
        """Start a successor in `slot`; when it serves, end the child there. Return why it could not."""
        old = self._serving.get(slot)
        try:
            new = await self._start_child(slot, config)
            await new.ready
        except ProcessFailedError as error:
            return error
        if old is not None and old in self._children:
            old.state = "leaving"
            self._broadcast_group()
            self._run_task(_terminate_later(old))
        return None

    async def _start_child(self, slot: int, config: Config) -> ChildProcess:
        """Start the process of a child; its `ready` says what becomes of it. Raises ProcessFailedError."""
        self._generation += 1
        name = f"{slot}-{self._generation}"
        directory = Path(self._directory.name)
        metrics = directory / "metrics"
        metrics.mkdir(exist_ok=True)
        fds = tuple(listener.fileno() for listener in self._listeners)
        settings = ProcessSettings(config, slot, len(fds), name, directory, self._key, fds)
        ours, theirs = socket.socketpair()
        with theirs:
            command = (sys.executable, "-m", "radixway.gateway.process_child", str(theirs.fileno()), name)
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), *fds),
                    env={DIRECTORY: str(metrics), **os.environ},
                    start_new_session=True,  # what is typed at a terminal comes to the supervisor alone
                )
            except OSError as error:
                ours.close()
                raise ProcessFailedError(f"no process can be started: {error}") from None
        channel = await ControlChannel.open_on(ours)
        channel.send_frame(pickle.dumps(settings))
        child = ChildProcess(slot, name, config, process, channel, asyncio.get_running_loop().create_future())
        child.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._children.append(child)
        child.tasks = [
            asyncio.create_task(self._read_child(child), name=f"messages of process {name}"),
            asyncio.create_task(self._watch_child(child), name=f"end of process {name}"),
        ]
        return child

    async def _read_child(self, child: ChildProcess) -> None:
        try:
            await self._handle_messages(child)
        except Exception as error:  # a child whose messages are not read would wait for answers for ever
            log.exception("the messages of %s cannot be decoded: restarting it", child.name)
            _set_failed(child, f"its messages could not be decoded ({type(error).__name__})")
            child.process.kill()

    async def _handle_messages(self, child: ChildProcess) -> None:
        async for frame in child.channel.read_frames():
            message = decode_for_supervisor(frame)
            if isinstance(message, ProcessJoined):
                child.state = "joining"
                self._broadcast_group()
            elif isinstance(message, ProcessReady):
                self._on_ready(child)
            elif isinstance(message, ProcessFailed):
                _set_failed(child, message.reason)
            else:
                answer = self._limits.handle_message(child.name, message)
                if answer is not None:
                    child.channel.send_message(answer)

    def _on_ready(self, child: ChildProcess) -> None:
        child.state = "serving"
        self._serving[child.slot] = child
        self._failed_starts = 0
        if not child.ready.done():
            child.ready.set_result(None)
        self._broadcast_group()

    async def _watch_child(self, child: ChildProcess) -> None:
        """Wait for the end of `child`, and start its successor where there should be one."""
        ended: asyncio.Future[Any] = asyncio.create_task(child.process.wait())
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await asyncio.wait([ended, child.ready], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            _set_failed(child, f"it was not ready within {_START_TIMEOUT_S:g} s")
            child.process.kill()
        code = await ended
        await asyncio.wait(child.tasks[:1])  # its last message says why it ended
        child.channel.close()
        self._children.remove(child)
        self._limits.release_child(child.name)
        served = self._serving.get(child.slot) is child
        if served:
            del self._serving[child.slot]
        _set_failed(child, _describe_end(code))
        self._broadcast_group()
        if self._stopping.is_set() or child.state == "leaving":
            return
        if served:
            log.warning("process %s has ended: %s", child.name, _describe_end(code))
            self._run_task(self._restart_slot(child.slot, monotonic() - child.started_at))

    async def _restart_slot(self, slot: int, lived_s: float) -> None:
        """Start a successor in an empty `slot`, again and again until it serves."""
        first, longest = _RESTART_AFTER_S
        while slot not in self._serving:
            before_s = self._pauses.get(slot)
            pause_s = first if before_s is None or lived_s > _LIVED_S else min(before_s * 2, longest)
            self._pauses[slot] = pause_s
            await asyncio.sleep(pause_s)
            async with self._roll_lock:
                if slot in self._serving:  # a roll has filled it
                    return
                try:
                    child = await self._start_child(slot, self._config)
                    await child.ready
                except ProcessFailedError as error:
                    self._failed_starts += 1
                    log.error("process %d could not be started again: %s", slot, error)
                    if self._failed_starts >= _MAX_FAILED_STARTS:
                        self._failure = error
                        self._stopping.set()
                        return
            lived_s = 0.0

    def _broadcast_group(self) -> None:
        """Send all children the members of the group, and who accepts at which listener."""
        members = [
            ProcessMember(child.slot, child.name, child.state)  # type: ignore[arg-type]
            for child in self._children
            if child.state != "starting"
        ]
        acceptors: list[str | None] = [None] * len(self._listeners)
        serving = (
            [] if self._stopping.is_set() else [self._serving[slot].name for slot in sorted(self._serving)]
        )
        if serving:
            for slot in range(len(acceptors)):
                own = self._serving.get(slot)
                acceptors[slot] = serving[slot % len(serving)] if own is None else own.name
        for child in self._children:
            if child.state != "starting":  # it follows its siblings from when it can be reached
                child.channel.send_message(GroupChanged(members, acceptors))

    async def _end_children(self) -> None:
        """Have all children end, and wait until they have; connections are refused from now on."""
        for listener in self._listeners:
            listener.close()
        for child in self._children:
            child.channel.send_message(ListeningEnded())
            child.terminate()
        watching = [task for child in self._children for task in child.tasks]
        if watching:
            limit_s = self._config.gateway.drain_s + _END_TIMEOUT_S
            _, late = await asyncio.wait(watching, timeout=limit_s)
            for child in list(self._children):
                log.error("process %s did not end, and is killed", child.name)
                child.process.kill()
            if late:
                await asyncio.wait(late)

    def _run_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _terminate_later(child: ChildProcess) -> None:
    """End `child`, which accepts no more, when those that it has just accepted have sent their requests."""
    await asyncio.sleep(_LEAVE_S)
    child.terminate()


def _set_failed(child: ChildProcess, reason: str) -> None:
    if not child.ready.done():
        child.ready.set_exception(ProcessFailedError(reason))


def _describe_end(code: int) -> str:
    if code >= 0:
        return f"it exited with status {code}"
    return f"it was ended by signal {-code} ({signal.strsignal(-code)})"


def _with_fixed_address(config: Config, old: Config) -> Config:
    """Return `config` with what cannot change while the address is listened on."""
    fixed = {name: getattr(old.gateway, name) for name in ("host", "port", "processes")}
    for name, value in fixed.items():
        if getattr(config.gateway, name) != value:
            log.warning("gateway.%s stays %s until the command is started again", name, value)
    return config.model_copy(update={"gateway": config.gateway.model_copy(update=fixed)})
