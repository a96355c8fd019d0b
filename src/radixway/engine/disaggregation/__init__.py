"""Prefill in one engine, decode in another: KV is transferred while it is computed.

`PrefillKVManager` is the prefill engine's side, `DecodeKVManager` the decode engine's; start with them. Both
copy in threads of their own, and the engine thread waits for neither.
"""

from radixway.engine.disaggregation.decode_kv_manager import DecodeKVManager
from radixway.engine.disaggregation.kv_sender import KVSender, notify_senders
from radixway.engine.disaggregation.prefill_kv_manager import PrefillKVManager
from radixway.engine.disaggregation.transfer_stats import TransferStats

__all__ = [
    "DecodeKVManager",
    "KVSender",
    "PrefillKVManager",
    "TransferStats",
    "notify_senders",
]
