"""A child: a gateway that answers at the shared address, and at a private socket for its siblings.

The supervisor runs `python -m radixway.gateway.process_child FD NAME`, FD being its end of the socket pair.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import socket
import sys

from radixway.core.config import ConfigError
from radixway.core.http import (
    AppServer,
    CannotListenError,
    ServerLimits,
    bind_unix,
    exit_process,
    raise_file_limit,
    run_until_exit,
)
from radixway.core.telemetry import HeapFreezer, configure_logging
from radixway.gateway.app import Gateway
from radixway.gateway.processes.control_messages import (
    ControlChannel,
    GroupChanged,
    LimitsReply,
    ProcessFailed,
    ProcessJoined,
    ProcessReady,
    decode_for_child,
    receive_frame,
)
from radixway.gateway.processes.process_group import ProcessGroup, ProcessSettings, load_path
from radixway.gateway.processes.tenant_limits import ProcessLimits

log = logging.getLogger(__name__)


class ChildServer:
    """A gateway in one of several processes. Belongs to one event loop."""

    def __init__(self, settings: ProcessSettings, channel: ControlChannel) -> None:
        """Build the gateway. Raises ConfigError, CannotListenError."""
        self._settings = settings
        self._channel = channel
        self._group = ProcessGroup(
            settings.slot, settings.count, settings.name, settings.directory, settings.key
        )
        self._limits = ProcessLimits(channel.send_message)
        config = settings.config
        self._shares_load = config.scale.sync is None
        """True: over sockets of our own. Over Redis siblings find each other as other gateways do."""
        self.gateway = Gateway(config, processes=self._group, limits=self._limits)
        assert self.gateway.siblings is not None
        self._siblings = self.gateway.siblings
        self._load_peers: set[str] = set()
        self._listeners = [socket.socket(fileno=fd) for fd in settings.listener_fds]
        self._accepted: set[int] = set()
        """Slots of others at whose listeners this child accepts."""
        own_listener = self._listeners[settings.slot]
        self._server = self.gateway.make_server(own_listener.dup())
        self._private = AppServer(
            self._siblings.answer_sibling,
            bind_unix(settings.http_path),
            drain_s=config.gateway.drain_s,
            websockets=True,
            limits=ServerLimits(**config.limits.server.model_dump()),
        )
        self._siblings.address = own_listener.getsockname()[:2]

    async def serve(self) -> None:
        """Serve until SIGTERM, or until the supervisor is gone."""
        reading = asyncio.create_task(self._read_supervisor(), name="messages of the supervisor")
        reading.add_done_callback(_end_with_supervisor)
        with self._server.stopped_by_signals():
            async with self.gateway.running():
                private = asyncio.create_task(self._private.serve(), name="private socket")
                try:
                    self._channel.send_message(ProcessJoined())
                    await self._group.wait_joined()
                    if self._group.other_slots():
                        await self._siblings.copy_state()
                    await self._probe_workers()
                    await self._server.serve(self._on_ready)
                finally:
                    self._private.stop()
                    await private
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    async def _probe_workers(self) -> None:
        """Wait until each worker has been probed once, a second at most: until then requests find none.

        Meanwhile siblings serve in this child's place; without any, connections wait to be accepted.
        """
        health = self.gateway.upstream.health
        await asyncio.gather(*(health.wait_first_probe(worker) for worker in self.gateway.registry))

    def _on_ready(self) -> None:
        HeapFreezer().freeze_startup_objects(is_idle=lambda: not self.gateway.in_hand)
        if self._group.is_first:
            self.gateway.warm_up()
            self.gateway.preload_console(self._siblings.address[1])
        self._channel.send_message(ProcessReady())

    async def _read_supervisor(self) -> None:
        async for frame in self._channel.read_frames():
            message = decode_for_child(frame)
            if isinstance(message, GroupChanged):
                self._group.apply_change(message)
                self._follow_loads()
                if self._group.is_leaving:
                    self._server.stop_accepting()
                else:
                    await self._follow_listeners(message)
            elif isinstance(message, LimitsReply):
                self._limits.receive_reply(message)
            else:
                for listener in self._listeners:
                    listener.close()

    def _follow_loads(self) -> None:
        """Receive the loads of the siblings that there are now."""
        if not self._shares_load or self.gateway.load_sync is None:
            return
        names = self._group.other_names()
        peers = {str(load_path(self._settings.directory, name)) for name in names}
        for peer in peers - self._load_peers:
            self.gateway.load_sync.connect_peer(peer)
        for peer in self._load_peers - peers:
            self.gateway.load_sync.disconnect_peer(peer)
        self._load_peers = peers

    async def _follow_listeners(self, change: GroupChanged) -> None:
        """Accept at the listeners of empty slots that the supervisor gives to this child."""
        wanted = {
            slot
            for slot, name in enumerate(change.acceptors)
            if name == self._group.name and slot != self._group.slot
        }
        for slot in wanted - self._accepted:
            await self._server.add_listener(self._listeners[slot])
        for slot in self._accepted - wanted:
            self._server.remove_listener(self._listeners[slot])
        self._accepted = wanted


def _end_with_supervisor(reading: asyncio.Task[None]) -> None:
    """End this process, which nobody would end or start again."""
    if not reading.cancelled():
        error = reading.exception()
        if error is None or isinstance(error, OSError | EOFError):
            log.warning("the supervisor has gone: this process ends")
        else:
            log.error("the messages of the supervisor cannot be read: this process ends", exc_info=error)
        signal.raise_signal(signal.SIGTERM)


async def _run(settings: ProcessSettings, sock: socket.socket) -> int:
    channel = await ControlChannel.open_on(sock)
    try:
        await ChildServer(settings, channel).serve()
    except (ConfigError, CannotListenError) as error:
        channel.send_message(ProcessFailed(str(error)))
        await channel.flush()
        return 2
    return 0


def main(arguments: list[str]) -> int:
    """Run a child to its end; `arguments`: the descriptor of its socket, and its name."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a configuration is read by the supervisor
    sock = socket.socket(fileno=int(arguments[0]))
    try:
        settings: ProcessSettings = pickle.loads(receive_frame(sock))
    except EOFError:  # the supervisor has ended
        return 1
    configure_logging(settings.config.telemetry.logs)
    raise_file_limit()
    return run_until_exit(_run(settings, sock))


if __name__ == "__main__":
    exit_process(main(sys.argv[1:]))
