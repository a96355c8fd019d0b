"""KV events: what enters and leaves the prefix cache, told to routers in vLLM's wire format over ZeroMQ.

The cache tells `KVEventRecorder`, which names pages by hash; once a step a batch goes to
`ZmqEventPublisher`, whose thread encodes and sends it; `ReplayServer` answers those who missed some.
"""

from radixway.engine.events.observer import KVEventRecorder, TierEventRecorder
from radixway.engine.events.publisher import PublisherInfo, ZmqEventPublisher
from radixway.engine.events.wire import (
    DISK,
    HOST,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventsFormat,
    KVCacheEvent,
)

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
