"""Messages between gateways, and the contract of what carries them.

A message is a msgpack array: version, the gateway's id and name, a sequence number, whether it is full, and a
map from worker URLs to shares (arrays of seven counts). With a shared key, 32 bytes of HMAC-SHA256 over the
rest stand before it.
"""

import hmac
from collections.abc import Callable
from typing import Annotated, Protocol, runtime_checkable

import msgspec
from msgspec import Meta

from radixway.routing import LoadShare

OnMessage = Callable[[bytes], None]


class SyncTransport(Protocol):
    """Carries bytes to all other gateways, best effort: what cannot be sent now is dropped."""

    name: str

    @property
    def problem(self) -> str | None:
        """Reason why nothing gets through now; None if none is known."""

    async def start_receiving(self, hear: OnMessage) -> None:
        """Begin to carry; `hear` is called in the event loop with each message that comes.

        Raises ConfigError for what can never work. A peer or server that is away is none of that: it is
        tried again until `close`.
        """

    def broadcast(self, message: bytes) -> None:
        """Send to all others. Never waits and never raises."""

    async def close_transport(self) -> None:
        """Send what is waiting if that is quick, and let go."""


@runtime_checkable
class ConnectingTransport(Protocol):
    """A transport that is told of others, one by one."""

    def connect_peer(self, peer: str) -> None:
        """Listen to one more gateway. Raises ConfigError."""

    def disconnect_peer(self, peer: str) -> None:
        """Listen to a gateway no more that was connected to."""


VERSION = 1
_MAC_BYTES = 32
_MAX_MESSAGE_BYTES = 4 * 2**20
_MAX_COUNT = 2**53


class InvalidSyncMessageError(Exception):
    """The bytes are no message of a gateway with our version and key; the text says why."""


class SyncMessage(msgspec.Struct, array_like=True, frozen=True):
    """Shares of some workers, or of all where the sender has requests in flight."""

    version: int
    gateway: Annotated[str, Meta(min_length=1, max_length=64)]
    """Random at each start, so that a restarted gateway's numbers are not taken for its old ones."""
    name: Annotated[str, Meta(max_length=256)]
    sequence: Annotated[int, Meta(ge=0, le=_MAX_COUNT)]
    full: bool
    """Workers left out have no requests of this gateway in flight."""
    shares: dict[str, LoadShare]
    """By the worker's URL. Each replaces the gateway's earlier share of that worker."""


class SyncMessageCodec:
    """Messages to bytes and back, sealed with `key` if there is one."""

    def __init__(self, key: str | None = None) -> None:
        self._key = key.encode() if key is not None else None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(SyncMessage).decode

    def encode_message(self, message: SyncMessage) -> bytes:
        """The bytes to send."""
        payload = self._encode(message)
        return payload if self._key is None else self._mac(self._key, payload) + payload

    def decode_message(self, data: bytes) -> SyncMessage:
        """The message in `data`. Raises InvalidSyncMessageError."""
        if len(data) > _MAX_MESSAGE_BYTES:
            raise InvalidSyncMessageError(f"a message of {len(data)} bytes")
        if self._key is not None:
            mac, data = data[:_MAC_BYTES], data[_MAC_BYTES:]
            if not hmac.compare_digest(mac, self._mac(self._key, data)):
                raise InvalidSyncMessageError("not sealed with our key")
        try:
            message = self._decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidSyncMessageError(str(error)) from None
        if message.version != VERSION:
            raise InvalidSyncMessageError(f"version {message.version}; this gateway speaks {VERSION}")
        for url, share in message.shares.items():
            if not (min(share) >= 0 and max(share) <= _MAX_COUNT and _is_consistent(share)):
                raise InvalidSyncMessageError(f"impossible counts for {url[:256]!r}")
        return message

    @staticmethod
    def _mac(key: bytes, payload: bytes) -> bytes:
        return hmac.digest(key, payload, "sha256")


def _is_consistent(share: LoadShare) -> bool:
    return (
        share.silent <= share.prefilling <= share.requests <= share.total
        and share.prefill_tokens <= share.sent_tokens
    )
