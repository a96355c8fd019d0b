"""KV events: what workers say that they hold, from their ZeroMQ messages to the block index.

`wire` decodes, `blocks` names, `follower` orders one publisher's batches, `following` speaks for a worker;
all of that is free of I/O. `subscriber` has the sockets, `addresses` knows where, `service` does it for all.
"""

from radixway.routing.kv_events.addresses import FeedAddress, NotReachable, feeds, told_by
from radixway.routing.kv_events.blocks import EngineBlocks
from radixway.routing.kv_events.counts import KvEventCounts
from radixway.routing.kv_events.follower import Follower
from radixway.routing.kv_events.following import Following
from radixway.routing.kv_events.service import KvEvents
from radixway.routing.kv_events.wire import Batch, Cleared, Removed, Stored, UnreadableBatch, decode_batch

__all__ = [
    "Batch",
    "Cleared",
    "EngineBlocks",
    "FeedAddress",
    "Follower",
    "Following",
    "KvEventCounts",
    "KvEvents",
    "NotReachable",
    "Removed",
    "Stored",
    "UnreadableBatch",
    "decode_batch",
    "feeds",
    "told_by",
]
