"""How a request reaches a worker: dispatch, HTTP, and the questions that keep a worker's record current."""

from radixway.transports.dispatch import Dispatch
from radixway.transports.fan_out import Call, FanOut, Outcome
from radixway.transports.http import HttpTransport
from radixway.transports.probe import HttpProbe
from radixway.transports.tokenize import HttpTokenize
from radixway.transports.traffic import Follower, Tap, Traffic
from radixway.transports.worker_calls import WorkerCalls

__all__ = [
    "Call",
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
]
