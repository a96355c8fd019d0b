"""KV events: the blocks that workers publish as cached, from their ZeroMQ messages to the block index.

Start with `service`, which follows all workers. `subscription` knows the addresses, `subscriber` has
the sockets. Free of I/O are `event_decoder` (one batch), `batch_sequencer` (a publisher's batches in order),
`engine_blocks` (from an engine's hashes to index names) and `WorkerKvFeed` (all publishers of one worker).
"""

from radixway.routing.kv_events.event_decoder import KvEventCounts
from radixway.routing.kv_events.service import KvEventService
from radixway.routing.kv_events.subscription import PublisherUnreachableError, read_publisher_config

__all__ = [
    "KvEventCounts",
    "KvEventService",
    "PublisherUnreachableError",
    "read_publisher_config",
]
