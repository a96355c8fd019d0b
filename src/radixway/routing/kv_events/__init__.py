"""KV events: the blocks that workers publish as cached, from their ZeroMQ messages to the block index.

Start with `service`, which follows all workers. `subscription` knows the addresses, `subscriber` has
the sockets. Free of I/O are `event_decoder` (one batch), `batch_sequencer` (a publisher's batches in order),
`engine_blocks` (from an engine's hashes to index names) and `worker_feed` (all publishers of one worker).
"""

from radixway.routing.kv_events.batch_sequencer import BatchSequencer
from radixway.routing.kv_events.engine_blocks import EngineBlockTracker
from radixway.routing.kv_events.event_decoder import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    KvEventBatch,
    KvEventCounts,
    UnreadableBatchError,
    decode_batch,
)
from radixway.routing.kv_events.service import KvEventService, WorkerKvFeed
from radixway.routing.kv_events.subscription import (
    PublisherAddress,
    PublisherUnreachableError,
    publisher_addresses,
    read_publisher_config,
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
