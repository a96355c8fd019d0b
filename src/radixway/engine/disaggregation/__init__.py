"""Prefill in one engine, decode in another: KV goes from one to the other while it is computed.

`Departures` is the prefill engine's side, `Arrivals` the decode engine's. Both copy in threads of their own;
the engine thread waits for neither.
"""

from radixway.engine.disaggregation.arrivals import Arrivals
from radixway.engine.disaggregation.departure import Departure, telling_departures
from radixway.engine.disaggregation.departures import Departures
from radixway.engine.disaggregation.identity import Identity
from radixway.engine.disaggregation.room import Room
from radixway.engine.disaggregation.stats import TransferStats

__all__ = [
    "Arrivals",
    "Departure",
    "Departures",
    "Identity",
    "Room",
    "TransferStats",
    "telling_departures",
]
