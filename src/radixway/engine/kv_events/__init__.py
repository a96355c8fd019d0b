"""KV events: what enters and leaves the prefix cache, published to routers in vLLM's wire format over
ZeroMQ.

`KVEventRecorder` names pages by hash as the cache changes; once a step a batch goes to
`ZmqEventPublisher`, whose thread encodes and sends it; `ReplayServer` resends recent batches to
subscribers that missed some.
"""

from radixway.engine.kv_events.event_recorder import (
    DISK,
    HOST,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVCacheEvent,
    KVEventRecorder,
    TierEventRecorder,
)
from radixway.engine.kv_events.publisher import PublisherInfo, ZmqEventPublisher

__all__ = [
    "DISK",
    "HOST",
    "AllBlocksCleared",
    "BlockRemoved",
    "BlockStored",
    "KVCacheEvent",
    "KVEventRecorder",
    "PublisherInfo",
    "TierEventRecorder",
    "ZmqEventPublisher",
]
