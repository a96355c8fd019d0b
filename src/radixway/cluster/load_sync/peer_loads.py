"""The other gateways' shares of the workers' load, by their messages.

Every share counts from the gateway's start and replaces the one before, so whatever was lost, doubled or
reordered on the way, the latest message that names a worker settles it:

    share of gateway g at worker w = as in the message of g with the highest sequence number received
                                     that name w or are full (in a full one that does not name w: nothing)
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from radixway.cluster.load_sync.transport import SyncMessage
from radixway.routing.worker_load import NOTHING, LoadShare

_MAX_PEERS = 256
_MAX_SHARES = 10_000
"""Workers of one gateway's report that are read."""


@dataclass(slots=True)
class PeerGateway:
    """Another gateway."""

    id: str
    name: str
    received_at: float = 0.0
    """Monotonic seconds of this gateway."""
    messages: int = 0
    missed: int = 0
    """Messages that were not there when a later one came."""
    sequence: int = -1
    full: int = -1
    """Sequence number of the latest full message."""
    shares: dict[str, tuple[int, LoadShare]] = field(default_factory=dict)
    """By worker URL, with the sequence number of its message; none older than `full`."""

    def apply_message(self, message: SyncMessage, now: float) -> set[str]:
        """Apply `message`; return the URLs of the workers whose load changed."""
        self.received_at, self.name = now, message.name
        self.messages += 1
        if self.sequence >= 0 and message.sequence > self.sequence + 1:
            self.missed += message.sequence - self.sequence - 1
        self.sequence = max(self.sequence, message.sequence)
        named = {
            url for url, share in message.shares.items() if self._replace_share(url, message.sequence, share)
        }
        return named | self._end_unlisted(message) if message.full else named

    def share_at(self, url: str) -> LoadShare:
        """Return its load at the worker of `url`."""
        return self.shares.get(url, (0, NOTHING))[1]

    @property
    def inflight_requests(self) -> int:
        """Return requests in flight at all workers."""
        return sum(share.requests for _, share in self.shares.values())

    def _replace_share(self, url: str, sequence: int, share: LoadShare) -> bool:
        known, before = self.shares.get(url, (self.full, NOTHING))
        if sequence <= known or (len(self.shares) >= _MAX_SHARES and url not in self.shares):
            return False
        self.shares[url] = (sequence, share)
        return share != before

    def _end_unlisted(self, message: SyncMessage) -> set[str]:
        if message.sequence <= self.full:
            return set()
        self.full = message.sequence
        ended = {url for url, (sequence, _) in self.shares.items() if sequence < message.sequence}
        return {url for url in ended if self.shares.pop(url)[1] != NOTHING}


class PeerLoads:
    """Loads of all other gateways. Pure: the time is an argument."""

    def __init__(self, own_id: str, forget_after_s: float) -> None:
        self._own_id = own_id
        self._forget_after_s = forget_after_s
        self._peers: dict[str, PeerGateway] = {}

    def __iter__(self) -> Iterator[PeerGateway]:
        return iter(tuple(self._peers.values()))

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._peers

    def receive_message(self, message: SyncMessage, now: float) -> set[str]:
        """Take in a message; returns the URLs of the workers for which something else holds now.

        Our own messages, which some transports bring back, are nothing. Neither are those of more gateways
        than anybody runs.
        """
        if message.gateway == self._own_id:
            return set()
        peer = self._peers.get(message.gateway)
        if peer is None:
            if len(self._peers) >= _MAX_PEERS:
                return set()
            peer = self._peers[message.gateway] = PeerGateway(message.gateway, message.name)
        return peer.apply_message(message, now)

    def drop_silent(self, now: float) -> set[str]:
        """Drop silent gateways; return the URLs of the workers where they had requests in flight."""
        gone = [peer for peer in self if now - peer.received_at >= self._forget_after_s]
        for peer in gone:
            del self._peers[peer.id]
        return {url for peer in gone for url, (_, share) in peer.shares.items() if share != NOTHING}

    def total_share_at(self, url: str) -> LoadShare:
        """Return the load of all of them together at the worker of `url`."""
        return LoadShare.sum_shares(peer.share_at(url) for peer in self)

    def check(self) -> None:
        """Raises AssertionError with the difference."""
        assert self._own_id not in self._peers, "this gateway takes itself for another one"
        for peer in self:
            assert peer.full <= peer.sequence, "a full message is newer than the newest"
            for sequence, _ in peer.shares.values():
                assert peer.full <= sequence <= peer.sequence, "a share is older than what replaced it"
