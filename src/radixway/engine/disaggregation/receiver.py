"""Takes one request's KV from a prefill engine and puts it into the request's pages."""

import socket
import threading

import torch
from torch import Tensor

from radixway.engine.disaggregation.channel import Channel
from radixway.engine.disaggregation.pieces import PIECE_BYTES, Inlet, SegmentInlet, StreamInlet
from radixway.engine.disaggregation.shared_memory import LOCAL_NAMES, Segment, available, hand_over, same_user
from radixway.engine.disaggregation.stats import Tally
from radixway.engine.disaggregation.wire import KV, PROTOCOL, Ask, Done, Greeting, Header, TransferFailed
from radixway.engine.pool import KVStore


class Receiver:
    """`run` in a thread of its own; `cut` from another."""

    def __init__(self, store: KVStore, slots: Tensor, ask: Ask, tally: Tally) -> None:
        """`slots` [stop - first]: where each token's KV goes."""
        self._store = store
        self._slots = slots
        self._ask = ask
        self._tally = tally
        self._writing = threading.Lock()
        self._came = [ask.first] * store.layers  # of each layer, up to which token
        self._is_cut = False
        self._channel: Channel | None = None

    @property
    def complete(self) -> int:
        """Tokens [0, this) have their KV in every layer, as far as they are this request's own."""
        return min(self._came)

    def cut(self) -> None:
        """Write nothing from here on."""
        with self._writing:
            self._is_cut = True
        if (channel := self._channel) is not None:
            channel.cut()

    def run(self, connection: socket.socket, timeout_s: float, *, local: bool) -> None:
        """Over a connection to the prefill engine, or a better one. Raises TransferFailed."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._opened(connection, timeout_s) as channel:
            greeting = channel.hear()
            if not isinstance(greeting, Greeting) or greeting.protocol != PROTOCOL:
                raise TransferFailed("the prefill engine speaks another protocol")
            met = _meet_here(greeting.local, timeout_s) if local and self._slots.numel() else None
            if met is None:
                self._receive(channel, StreamInlet(channel))
                return
        connection, segment = met
        with self._opened(connection, timeout_s) as channel:
            self._receive(channel, SegmentInlet(channel, segment))

    def _opened(self, connection: socket.socket, timeout_s: float) -> Channel:
        channel = self._channel = Channel(connection, timeout_s)
        if self._is_cut:  # by somebody who may not have seen the channel
            channel.cut()
        return channel

    def _receive(self, channel: Channel, inlet: Inlet) -> None:
        channel.say(self._ask)
        while True:
            header = channel.header()
            if header.kind != KV:
                if not isinstance(channel.message(header), Done):
                    raise TransferFailed("a message out of turn")
                if self.complete < self._ask.stop:
                    raise TransferFailed("the prefill engine says it is through, and is not")
                return
            self._check(header)
            payload = inlet.take(header)
            self._put(header, payload)
            inlet.give_back(header)
            self._tally.moved(header.size)

    def _check(self, header: Header) -> None:
        """Raises TransferFailed for a piece that is not the next of its layer."""
        fits = (
            header.layer < len(self._came)
            and header.count > 0
            and header.first == self._came[header.layer]
            and header.first + header.count <= self._ask.stop
            and header.size == header.count * self._store.layer_token_bytes
        )
        if not fits:
            raise TransferFailed("a piece out of turn")

    def _put(self, header: Header, payload: memoryview) -> None:
        start = header.first - self._ask.first
        slots = self._slots[start : start + header.count]
        with self._writing:
            if self._is_cut:
                raise TransferFailed("it is no longer wanted")
            self._store.put_tokens(header.layer, slots, torch.frombuffer(payload, dtype=torch.uint8))
            self._came[header.layer] += header.count


def _meet_here(name: str, timeout_s: float) -> tuple[socket.socket, Segment] | None:
    """The prefill engine over shared memory; None if it is not on this machine, or another user's."""
    if not name.startswith(LOCAL_NAMES) or not available():
        return None  # whoever was named in a request does not choose whom else on this machine we talk to
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(f"\0{name}")
        if same_user(connection):
            return connection, hand_over(connection, PIECE_BYTES)
    except OSError:
        pass  # what listens there listens on another machine, or in another container
    connection.close()
    return None
