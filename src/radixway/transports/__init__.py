"""How a request reaches a worker: dispatch, HTTP, and the questions that keep a worker's record current."""

from radixway.transports.carrier import Carrier
from radixway.transports.dispatch import Dispatch
from radixway.transports.event_stream import CHUNKS_PER_BLOCK
from radixway.transports.fan_out import Call, FanOut, Outcome
from radixway.transports.http import HttpTransport
from radixway.transports.probe import HttpProbe
from radixway.transports.reply_headers import is_dropped, kept_reply_headers
from radixway.transports.reports import WorkerReports
from radixway.transports.tokenize import HttpTokenize
from radixway.transports.traffic import Follower, Tap, Traffic
from radixway.transports.worker_calls import WorkerCalls

__all__ = [
    "CHUNKS_PER_BLOCK",
    "Call",
    "Carrier",
    "Dispatch",
    "FanOut",
    "Follower",
    "HttpProbe",
    "HttpTokenize",
    "HttpTransport",
    "Outcome",
    "Tap",
    "Traffic",
    "WorkerCalls",
    "WorkerReports",
    "is_dropped",
    "kept_reply_headers",
]
