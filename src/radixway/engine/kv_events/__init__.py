"""KV events: what enters and leaves the prefix cache, told to routers in vLLM's wire format over ZeroMQ.

The cache tells `KVEventRecorder`, which names pages by hash; once a step a batch goes to
`ZmqEventPublisher`, whose thread encodes and sends it; `ReplayServer` answers those who missed some.
"""

from radixway.engine.kv_events.event_encoder import (
    DISK,
    HOST,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventsFormat,
    KVCacheEvent,
)
from radixway.engine.kv_events.event_recorder import KVEventRecorder, TierEventRecorder
from radixway.engine.kv_events.publisher import PublisherInfo, ZmqEventPublisher

__all__ = [
    "DISK",
    "HOST",
    "AllBlocksCleared",
    "BlockRemoved",
    "BlockStored",
    "EventsFormat",
    "KVCacheEvent",
    "KVEventRecorder",
    "PublisherInfo",
    "TierEventRecorder",
    "ZmqEventPublisher",
]
