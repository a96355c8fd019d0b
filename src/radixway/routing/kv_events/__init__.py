"""KV events: what workers say that they hold, from their ZeroMQ messages to the block index.

`wire` decodes, `blocks` names, `follower` orders one publisher's batches, `following` speaks for a worker;
all of that is free of I/O. `subscriber` has the sockets, `addresses` knows where, `service` does it for all.
"""

from radixway.routing.kv_events.batch_sequencer import BatchSequencer
from radixway.routing.kv_events.counts import KvEventCounts
from radixway.routing.kv_events.engine_blocks import EngineBlockTracker
from radixway.routing.kv_events.event_decoder import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    KvEventBatch,
    UnreadableBatchError,
    decode_batch,
)
from radixway.routing.kv_events.service import KvEventService
from radixway.routing.kv_events.subscription import (
    PublisherAddress,
    PublisherUnreachableError,
    publisher_addresses,
    read_publisher_config,
)
from radixway.routing.kv_events.worker_feed import WorkerKvFeed

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
