"""The sockets of one publisher: subscribes, asks for replays, and tells the follower what it hears."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from radixway.core.work_slices import WorkSlices, run_in_slices
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
        settle: Callable[[], Awaitable[None]],
        lock: asyncio.Lock,
        context: zmq.asyncio.Context,
        replays: asyncio.Semaphore,
        timing: SubscriptionTimeouts,
    ) -> None:
        """`settle`: called after the follower's state changed.

        `lock`: held while the follower is told something, until it has been settled. `replays`: how many may
        run at a time.
        """
        self._address = address
        self._follower = follower
        self._settle = settle
        self._lock = lock
        self._context = context
        self._replays = replays
        self._timing = timing
        self._replaying: asyncio.Task[None] | None = None
        self._away: asyncio.TimerHandle | None = None
        self._notices: set[asyncio.Task[None]] = set()
        """Under way to the follower."""

    async def run_subscription(self) -> None:
        """Follow until cancelled. Ends early only if the endpoint cannot be used."""
        try:
            with self._context.socket(zmq.SUB) as socket:
                await self._follow(socket)
        except zmq.ZMQError as error:
            what = zmq.strerror(error.errno or 0)
            await self._on_disconnected(f"cannot listen at {self._address.endpoint}: {what}")
        except Exception as error:
            log.exception("following %s failed unexpectedly", self._address.endpoint)
            await self._on_disconnected(f"following it failed: {error}")
        finally:
            if self._away is not None:
                self._away.cancel()
            tasks = [*self._notices, *([] if self._replaying is None else [self._replaying])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def verify_position(self) -> None:
        """Check that no batch was missed, or request again what an earlier replay did not return."""
        self._start_notice(self._notify_sequencer(self._follower.retry_replay))
        self._start_notice(self._notify_sequencer(self._follower.verify_position))

    def _start_notice(self, notice: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(notice, name="KV events notice")
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

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
                await self._notify_sequencer(self._follower.on_connected)
            else:
                loop = asyncio.get_running_loop()
                self._away = loop.call_later(self._timing.away_s, self._on_away)

    def _on_away(self) -> None:
        why = f"its publisher has been away for {self._timing.away_s:g} s"
        self._start_notice(self._on_disconnected(why))

    async def _on_disconnected(self, reason: str) -> None:
        await self._notify_sequencer(lambda: self._follower.on_disconnected(reason))

    async def _receive_loop(self, socket: zmq.asyncio.Socket) -> None:
        is_new, clock = True, asyncio.get_running_loop().time
        while True:
            if not await socket.poll(int(self._timing.quiet_s * 1000)):
                if is_new:
                    await self._notify_sequencer(self._follower.verify_position)
                is_new = False
                continue
            is_new = True
            async with self._lock:
                turn_ends = clock() + _TURN_S
                with suppress(zmq.Again):
                    while clock() < turn_ends:
                        frames = await socket.recv_multipart(zmq.NOBLOCK)
                        await run_in_slices(self._handle_frames(frames))
                await self._settle()
            self._start_replay()
            await asyncio.sleep(0)

    def _handle_frames(self, frames: list[bytes]) -> WorkSlices[None]:
        """Handle `[topic][number, 8 bytes big-endian][payload]`."""
        if len(frames) < 2 or len(frames[-2]) != 8:
            log.warning("a message from %s is not a batch of KV events", self._address.endpoint)
            return
        yield from self._follower.on_live_batch(int.from_bytes(frames[-2], "big"), frames[-1])

    async def _notify_sequencer(self, tell: Callable[[], None]) -> None:
        async with self._lock:
            tell()
            await self._settle()
        self._start_replay()

    def _start_replay(self) -> None:
        if self._follower.replay_from is not None and (self._replaying is None or self._replaying.done()):
            replay = self._replay_until_settled()
            self._replaying = asyncio.get_running_loop().create_task(replay, name="KV events replay")

    async def _replay_until_settled(self) -> None:
        follower, pause_s = self._follower, self._timing.retry_s
        while (start := follower.replay_from) is not None:
            await self._request_replay(start, follower.attempt)
            async with self._lock:
                await self._settle()
            if follower.worth_retrying and follower.replay_from is None:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _MAX_RETRY_S)
                async with self._lock:
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
                            began_s = clock()
                            timeout.reschedule(None)  # a batch is applied whole, and in time of our own
                            async with self._lock:
                                if await run_in_slices(self._handle_replay_frames(attempt, answer)):
                                    return
                            last_moment += clock() - began_s
                            timeout.reschedule(min(clock() + timing.silent_s, last_moment))
                            if clock() >= turn_ends:
                                await asyncio.sleep(0)
                                turn_ends = clock() + _TURN_S
                except TimeoutError:
                    problem = f"{endpoint} did not replay what was missed in time"
                except zmq.ZMQError as error:
                    problem = f"no replay from {endpoint}: {zmq.strerror(error.errno or 0)}"
                else:
                    return
            async with self._lock:
                follower.on_replay_failed(attempt, problem)

    def _handle_replay_frames(self, attempt: int, answer: list[Any]) -> WorkSlices[bool]:
        """Handle `[envelope …][number][payload]`, with or without a topic before the number; return True at
        the end."""
        if len(answer) < 2 or len(answer[-2]) != 8:
            log.warning("a replay from %s is not a batch of KV events", self._address.replay_endpoint)
            return False
        number, payload = answer[-2:]
        if number == _END:
            yield from self._follower.on_replay_ended(attempt)
            return True
        yield from self._follower.on_replayed_batch(attempt, int.from_bytes(number, "big"), payload)
        return False
