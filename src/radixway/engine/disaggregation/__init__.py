"""Prefill in one engine, decode in another: KV goes from one to the other while it is computed.

`PrefillKVManager` is the prefill engine's side, `DecodeKVManager` the decode engine's. Both copy in threads
of their own; the engine thread waits for neither.
"""

from radixway.engine.disaggregation.base import BootstrapRoom, TransferStats
from radixway.engine.disaggregation.decode_kv_manager import DecodeKVManager
from radixway.engine.disaggregation.kv_identity import KVIdentity
from radixway.engine.disaggregation.kv_sender import KVSender, notify_senders
from radixway.engine.disaggregation.prefill_kv_manager import PrefillKVManager

__all__ = [
    "BootstrapRoom",
    "DecodeKVManager",
    "KVIdentity",
    "KVSender",
    "PrefillKVManager",
    "TransferStats",
    "notify_senders",
]
