"""KV events: what workers say that they hold, from their ZeroMQ messages to the block index.

`wire` decodes, `blocks` names, `follower` orders one publisher's batches, `following` speaks for a worker;
all of that is free of I/O. `subscriber` has the sockets, `addresses` knows where, `service` does it for all.
"""

from radixway.routing.kv_events.addresses import (
    PublisherAddress,
    PublisherUnreachableError,
    publisher_addresses,
    read_publisher_config,
)
from radixway.routing.kv_events.blocks import EngineBlockTracker
from radixway.routing.kv_events.counts import KvEventCounts
from radixway.routing.kv_events.follower import BatchSequencer
from radixway.routing.kv_events.following import WorkerKvFeed
from radixway.routing.kv_events.service import KvEventService
from radixway.routing.kv_events.wire import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    KvEventBatch,
    UnreadableBatchError,
    decode_batch,
)

__all__ = [
    "BatchSequencer",
    "BlocksCleared",
    "BlocksRemoved",
    "BlocksStored",
    "EngineBlockTracker",
    "KvEventBatch",
    "KvEventCounts",
    "KvEventService",
    "PublisherAddress",
    "PublisherUnreachableError",
    "UnreadableBatchError",
    "WorkerKvFeed",
    "decode_batch",
    "publisher_addresses",
    "read_publisher_config",
]
