"""Keeps gateways' views of their workers together: tells what changed here, takes in what others say."""

import asyncio
import logging
import platform
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from radixway.cluster.load_sync.peer_loads import PeerLoads
from radixway.cluster.load_sync.transport import (
    VERSION,
    ConnectingTransport,
    InvalidSyncMessageError,
    SyncMessage,
    SyncMessageCodec,
    SyncTransport,
)
from radixway.core.component import Component
from radixway.core.config import Config, ConfigError, SyncConfig
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import LoadLedger, Worker, WorkerRegistry

log = logging.getLogger(__name__)


class LoadSync(Component):
    """Publishes one gateway's load. A lease's step costs it a set's `add`; the rest happens between requests.

    Workers whose load changed are sent together, `interval_s` after the first of them, and all workers every
    `heartbeat_s`. A gateway that was silent for `forget_after_s` counts as having no requests in flight.
    """

    name = "load_sync"

    def __init__(
        self,
        config: SyncConfig,
        own_name: str,
        registry: WorkerRegistry,
        ledger: LoadLedger,
        transport: SyncTransport,
        metrics: MetricsRegistry,
    ) -> None:
        """`own_name`: what people at other gateways see of this one."""
        self.id = secrets.token_hex(8)
        self._own_name = own_name
        self.on_news: list[Callable[[], None]] = []
        """Called when another gateway's load has changed, or it appears or disappears."""
        self._config = config
        self._registry = registry
        self._ledger = ledger
        self._transport = transport
        self._letters = SyncMessageCodec(config.key.get_secret_value() if config.key else None)
        self.peers = PeerLoads(self.id, config.forget_after_s)
        self._changed: set[Worker] = set()
        self._sequence = 0
        self._send_soon: asyncio.TimerHandle | None = None
        self._next_beat: asyncio.TimerHandle | None = None
        self._beaten_at = ledger.clock()
        self._sent = metrics.counter("radixway_load_sync_sent", "Messages sent to the other gateways")
        self._received = metrics.counter("radixway_load_sync_heard", "Messages heard from other gateways")
        self._bad = metrics.counter(
            "radixway_load_sync_bad", "Messages that no gateway of our version and key can have sent"
        )
        metrics.gauge(
            "radixway_load_sync_peers", "Other gateways heard recently", lambda: len(self.peers), "max"
        )
        metrics.gauge(
            "radixway_load_sync_up",
            "1 unless it is known that nothing gets through",
            lambda: float(self._transport.problem is None),
            "min",
        )
        metrics.gauge(
            "radixway_in_flight_elsewhere",
            "Requests at our workers from other gateways",
            lambda: sum(worker.load.elsewhere.requests for worker in registry),
        )

    async def start(self) -> None:
        """Tell and listen. Raises ConfigError for what can never work."""
        await self._transport.start_receiving(self.receive_message)
        self._ledger.on_step = self._mark_changed
        self._registry.on_add.append(self._apply_to_new_worker)
        self._send_heartbeat()

    async def stop(self) -> None:
        """Send a last, full message without any requests in flight."""
        self._ledger.on_step = None
        self._registry.on_add.remove(self._apply_to_new_worker)
        for timer in (self._send_soon, self._next_beat):
            if timer is not None:
                timer.cancel()
        self._broadcast_shares((), full=True)
        await self._transport.close_transport()

    def connect_peer(self, endpoint: str) -> None:
        """Hear the gateway that publishes at `endpoint` too; over ZeroMQ and Unix sockets alone."""
        assert isinstance(self._transport, ConnectingTransport)
        self._transport.connect_peer(endpoint)
        self._changed.update(self._registry)  # it has heard nothing yet
        self._schedule_send()

    def disconnect_peer(self, endpoint: str) -> None:
        """Hear the gateway at `endpoint` no more."""
        assert isinstance(self._transport, ConnectingTransport)
        self._transport.disconnect_peer(endpoint)

    def receive_message(self, data: bytes) -> None:
        """Apply the message in `data`. A bad one is only counted."""
        try:
            message = self._letters.decode_message(data)
        except InvalidSyncMessageError as error:
            self._bad().inc()
            log.debug("load sync: %s", error)
            return
        if message.gateway == self.id:
            return
        self._received().inc()
        is_new = message.gateway not in self.peers
        changed = self.peers.receive_message(message, self._ledger.clock())
        self._apply_peer_loads(changed)
        if is_new and message.gateway in self.peers:
            log.info("load sync: gateway %s (%s) joined", message.name, message.gateway)
            self._changed.update(self._registry)  # it need not wait for the next heartbeat
            self._schedule_send()
        if changed or is_new:
            self._notify_listeners()

    def known_peers(self) -> frozenset[tuple[str, bool]]:
        """Return the other gateways, and whether each has sent the load of all its workers."""
        return frozenset((peer.id, peer.full >= 0) for peer in self.peers)

    def describe(self) -> dict[str, Any]:
        """Return the report for `/health`."""
        now, problem = self._ledger.clock(), self._transport.problem
        return {
            "gateway": self.id,
            "over": self._transport.name,
            "state": "down" if problem else "ok" if len(self.peers) else "alone",
            "problem": problem,
            "peers": [
                {
                    "gateway": peer.id,
                    "name": peer.name,
                    "heard_s_ago": round(now - peer.received_at, 3),
                    "messages": peer.messages,
                    "missed": peer.missed,
                    "in_flight": peer.inflight_requests,
                }
                for peer in self.peers
            ],
        }

    def _mark_changed(self, worker: Worker) -> None:
        self._changed.add(worker)
        if self._send_soon is None:
            self._schedule_send()

    def _schedule_send(self) -> None:
        if self._send_soon is None:
            loop = asyncio.get_running_loop()
            self._send_soon = loop.call_later(self._config.interval_s, self._send_changed)

    def _send_changed(self) -> None:
        self._send_soon = None
        changed, self._changed = self._changed, set()
        self._broadcast_shares(changed, full=False)

    def _send_heartbeat(self) -> None:
        loop = asyncio.get_running_loop()
        self._next_beat = loop.call_later(self._config.heartbeat_s, self._send_heartbeat)
        self._broadcast_shares(self._registry, full=True)
        now, known = self._ledger.clock(), len(self.peers)
        late, self._beaten_at = now - self._beaten_at > 2 * self._config.heartbeat_s, now
        if late:
            return  # this process was suspended; messages from then are still unread
        self._apply_peer_loads(self.peers.drop_silent(now))
        if len(self.peers) != known:
            log.warning("load sync: nothing was heard from %d gateways", known - len(self.peers))
            self._notify_listeners()

    def _broadcast_shares(self, workers: Iterable[Worker], *, full: bool) -> None:
        shares = {worker.url: worker.load.to_share() for worker in workers if worker.load.total}
        message = SyncMessage(VERSION, self.id, self._own_name, self._sequence, full, shares)
        self._sequence += 1
        self._transport.broadcast(self._letters.encode_message(message))
        self._sent().inc()

    def _apply_peer_loads(self, urls: Iterable[str]) -> None:
        for url in urls:
            worker = self._registry.get_worker(url)
            if worker is not None:
                self._ledger.set_remote_load(worker, self.peers.total_share_at(url))

    def _apply_to_new_worker(self, worker: Worker) -> None:
        self._ledger.set_remote_load(worker, self.peers.total_share_at(worker.url))

    def _notify_listeners(self) -> None:
        for tell in self.on_news:
            tell()


def build_load_sync(
    config: Config,
    registry: WorkerRegistry,
    ledger: LoadLedger,
    metrics: MetricsRegistry,
    in_ray: SyncTransport | None = None,
    between_processes: SyncTransport | None = None,
) -> LoadSync | None:
    """Build the part that `scale.sync` configures, or None. Raises ConfigError if a package is missing.

    `in_ray`: what carries messages between replicas of a Ray application. `between_processes`: what carries
    them between processes of this gateway, whatever `scale.sync` says.
    """
    sync = config.scale.sync
    if sync is None:
        return None
    name = f"{platform.node()}:{config.gateway.port}"
    transport = between_processes or _make_transport(sync, in_ray)
    return LoadSync(sync, name, registry, ledger, transport, metrics)


def _make_transport(sync: SyncConfig, in_ray: SyncTransport | None) -> SyncTransport:
    if sync.ray:
        if in_ray is None:
            raise ConfigError("scale.sync.ray is for gateways that `radixway ray deploy` has deployed")
        return in_ray
    if sync.redis is not None:
        try:
            from radixway.cluster.load_sync.redis_transport import RedisTransport
        except ModuleNotFoundError as error:
            needed = f"scale.sync.redis needs the package {error.name}: pip install 'radixway[redis]'"
            raise ConfigError(needed) from None
        return RedisTransport(sync.redis.get_secret_value(), sync.channel, sync.forget_after_s)
    from radixway.cluster.load_sync.zmq_transport import ZmqTransport

    assert sync.bind is not None
    return ZmqTransport(sync.bind, sync.peers)
