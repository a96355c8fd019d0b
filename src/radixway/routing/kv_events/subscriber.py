"""The sockets of one publisher: subscribes, asks for replays, and tells the follower what it hears."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from radixway.routing.kv_events.batch_sequencer import BatchSequencer
from radixway.routing.kv_events.subscription import PublisherAddress, SubscriptionTimeouts

log = logging.getLogger(__name__)

_END = b"\xff" * 8
_TURN_S = 0.002
"""Time for batches before the loop yields: sockets with data never block."""
_UNREAD_BATCHES = 100_000
_MAX_MESSAGE_BYTES = 256 * 2**20  # larger messages close the connection; a replay follows
_HEARTBEAT_MS = 5_000
_RECONNECT_MS, _MAX_RECONNECT_MS = 100, 2_000
_MAX_RETRY_S = 60.0


class KvEventSubscriber:
    """A publisher's sockets, from `run` to its cancellation."""

    def __init__(
        self,
        address: PublisherAddress,
        follower: BatchSequencer,
        settle: Callable[[], None],
        context: zmq.asyncio.Context,
        replays: asyncio.Semaphore,
        timing: SubscriptionTimeouts,
    ) -> None:
        """`settle`: called after the follower's state changed. `replays`: how many may run at a time."""
        self._address = address
        self._follower = follower
        self._settle = settle
        self._context = context
        self._replays = replays
        self._timing = timing
        self._replaying: asyncio.Task[None] | None = None
        self._away: asyncio.TimerHandle | None = None

    async def run_subscription(self) -> None:
        """Follow until cancelled. Ends early only if the endpoint cannot be used."""
        try:
            with self._context.socket(zmq.SUB) as socket:
                await self._follow(socket)
        except zmq.ZMQError as error:
            what = zmq.strerror(error.errno or 0)
            self._on_disconnected(f"cannot listen at {self._address.endpoint}: {what}")
        except Exception as error:
            log.exception("following %s failed unexpectedly", self._address.endpoint)
            self._on_disconnected(f"following it failed: {error}")
        finally:
            if self._away is not None:
                self._away.cancel()
            if self._replaying is not None:
                self._replaying.cancel()
                await asyncio.gather(self._replaying, return_exceptions=True)

    def verify_position(self) -> None:
        """Check that no batch was missed, or request again what an earlier replay did not return."""
        self._notify_sequencer(self._follower.retry_replay)
        self._notify_sequencer(self._follower.verify_position)

    async def _follow(self, socket: zmq.asyncio.Socket) -> None:
        self._configure_socket(socket)
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        with socket.get_monitor_socket(events) as monitor:
            try:
                (socket.bind if self._address.binds else socket.connect)(self._address.endpoint)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._watch_connection(monitor))
                    tasks.create_task(self._receive_loop(socket))
            finally:
                socket.disable_monitor()

    def _configure_socket(self, socket: zmq.asyncio.Socket) -> None:
        socket.linger = 0
        socket.rcvhwm, socket.maxmsgsize = _UNREAD_BATCHES, _MAX_MESSAGE_BYTES
        socket.ipv6 = "[" in self._address.endpoint
        socket.reconnect_ivl, socket.reconnect_ivl_max = _RECONNECT_MS, _MAX_RECONNECT_MS
        socket.heartbeat_ivl, socket.heartbeat_timeout = _HEARTBEAT_MS, 3 * _HEARTBEAT_MS
        socket.subscribe(self._address.topic)

    async def _watch_connection(self, monitor: zmq.asyncio.Socket) -> None:
        while True:
            event = (await recv_monitor_message(monitor))["event"]
            if self._away is not None:
                self._away.cancel()
                self._away = None
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._notify_sequencer(self._follower.on_connected)
            else:
                loop = asyncio.get_running_loop()
                why = f"its publisher has been away for {self._timing.away_s:g} s"
                self._away = loop.call_later(self._timing.away_s, self._on_disconnected, why)

    def _on_disconnected(self, reason: str) -> None:
        self._notify_sequencer(lambda: self._follower.on_disconnected(reason))

    async def _receive_loop(self, socket: zmq.asyncio.Socket) -> None:
        is_new, clock = True, asyncio.get_running_loop().time
        while True:
            if not await socket.poll(int(self._timing.quiet_s * 1000)):
                if is_new:
                    self._notify_sequencer(self._follower.verify_position)
                is_new = False
                continue
            is_new = True
            turn_ends = clock() + _TURN_S
            with suppress(zmq.Again):
                while clock() < turn_ends:
                    self._handle_frames(await socket.recv_multipart(zmq.NOBLOCK))
            self._notify_sequencer()
            await asyncio.sleep(0)

    def _handle_frames(self, frames: list[bytes]) -> None:
        """Handle `[topic][number, 8 bytes big-endian][payload]`."""
        if len(frames) < 2 or len(frames[-2]) != 8:
            log.warning("a message from %s is not a batch of KV events", self._address.endpoint)
            return
        self._follower.on_live_batch(int.from_bytes(frames[-2], "big"), frames[-1])

    def _notify_sequencer(self, tell: Callable[[], None] | None = None) -> None:
        if tell is not None:
            tell()
        self._settle()
        if self._follower.replay_from is not None and (self._replaying is None or self._replaying.done()):
            replay = self._replay_until_settled()
            self._replaying = asyncio.get_running_loop().create_task(replay, name="KV events replay")

    async def _replay_until_settled(self) -> None:
        follower, pause_s = self._follower, self._timing.retry_s
        while (start := follower.replay_from) is not None:
            await self._request_replay(start, follower.attempt)
            self._settle()
            if follower.worth_retrying and follower.replay_from is None:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _MAX_RETRY_S)
                follower.retry_replay()

    async def _request_replay(self, start: int, attempt: int) -> None:
        follower, timing = self._follower, self._timing
        endpoint = self._address.replay_endpoint
        assert endpoint is not None
        async with self._replays:
            clock = asyncio.get_running_loop().time
            last_moment = clock() + timing.replay_s
            with self._context.socket(zmq.DEALER) as socket:
                socket.linger, socket.rcvhwm, socket.ipv6 = 0, 0, "[" in endpoint
                socket.maxmsgsize = _MAX_MESSAGE_BYTES
                try:
                    socket.connect(endpoint)
                    async with asyncio.timeout(timing.silent_s) as timeout:
                        await socket.send_multipart((b"", start.to_bytes(8, "big")))
                        turn_ends = clock() + _TURN_S
                        while follower.attempt == attempt:
                            answer = await socket.recv_multipart()
                            if self._handle_replay_frames(attempt, answer):
                                return
                            timeout.reschedule(min(clock() + timing.silent_s, last_moment))
                            if clock() >= turn_ends:
                                await asyncio.sleep(0)
                                turn_ends = clock() + _TURN_S
                except TimeoutError:
                    follower.on_replay_failed(attempt, f"{endpoint} did not replay what was missed in time")
                except zmq.ZMQError as error:
                    what = zmq.strerror(error.errno or 0)
                    follower.on_replay_failed(attempt, f"no replay from {endpoint}: {what}")

    def _handle_replay_frames(self, attempt: int, answer: list[Any]) -> bool:
        """Handle `[envelope …][number][payload]`, with or without a topic before the number; return True at
        the end."""
        if len(answer) < 2 or len(answer[-2]) != 8:
            log.warning("a replay from %s is not a batch of KV events", self._address.replay_endpoint)
            return False
        number, payload = answer[-2:]
        if number == _END:
            self._follower.on_replay_ended(attempt)
            return True
        self._follower.on_replayed_batch(attempt, int.from_bytes(number, "big"), payload)
        return False
