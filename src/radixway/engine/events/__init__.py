"""KV events: what enters and leaves the prefix cache, told to routers in vLLM's wire format over ZeroMQ.

The cache tells `CacheEvents`, which names pages by hash; once a step a batch goes to `Publisher`, whose
thread encodes and sends it; `Replay` answers those who missed some.
"""

from radixway.engine.events.observer import CacheEvents, MediumEvents
from radixway.engine.events.publisher import Publisher, PublisherInfo
from radixway.engine.events.wire import (
    DISK,
    HOST,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    Event,
    EventsFormat,
)

__all__ = [
    "DISK",
    "HOST",
    "AllBlocksCleared",
    "BlockRemoved",
    "BlockStored",
    "CacheEvents",
    "Event",
    "EventsFormat",
    "MediumEvents",
    "Publisher",
    "PublisherInfo",
]
