"""Prefill in one engine, decode in another: KV goes from one to the other while it is computed.

`PrefillKVManager` is the prefill engine's side, `DecodeKVManager` the decode engine's. Both copy in threads
of their own; the engine thread waits for neither.
"""

from radixway.engine.disaggregation.arrivals import DecodeKVManager
from radixway.engine.disaggregation.departure import KVSender, notify_senders
from radixway.engine.disaggregation.departures import PrefillKVManager
from radixway.engine.disaggregation.identity import KVIdentity
from radixway.engine.disaggregation.room import BootstrapRoom
from radixway.engine.disaggregation.stats import TransferStats

__all__ = [
    "BootstrapRoom",
    "DecodeKVManager",
    "KVIdentity",
    "KVSender",
    "PrefillKVManager",
    "TransferStats",
    "notify_senders",
]
