"""How a request reaches a worker: dispatch, HTTP, and the questions that keep a worker's record current."""

from radixway.transports.carrier import RequestForwarder
from radixway.transports.dispatch import RequestDispatcher
from radixway.transports.event_stream import CHUNKS_PER_BLOCK
from radixway.transports.fan_out import FanOut, FanOutCall, FanOutResult
from radixway.transports.http import HttpTransport
from radixway.transports.probe import HttpProbe
from radixway.transports.reply_headers import filter_reply_headers, is_dropped_header
from radixway.transports.reports import EngineMetricsPoller
from radixway.transports.tokenize import HttpTokenizeCall
from radixway.transports.traffic import TrafficFeed, TrafficFollower, TrafficTap
from radixway.transports.worker_calls import WorkerClient

__all__ = [
    "CHUNKS_PER_BLOCK",
    "EngineMetricsPoller",
    "FanOut",
    "FanOutCall",
    "FanOutResult",
    "HttpProbe",
    "HttpTokenizeCall",
    "HttpTransport",
    "RequestDispatcher",
    "RequestForwarder",
    "TrafficFeed",
    "TrafficFollower",
    "TrafficTap",
    "WorkerClient",
    "filter_reply_headers",
    "is_dropped_header",
]
