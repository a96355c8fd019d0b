"""Brings requests to workers. Start with `dispatch.RequestDispatcher`, the pipeline's innermost step."""

from radixway.routing.transports.dispatch import RequestDispatcher, RequestForwarder
from radixway.routing.transports.event_stream import CHUNKS_PER_BLOCK
from radixway.routing.transports.fan_out import FanOut, FanOutCall, FanOutResult
from radixway.routing.transports.http_probe import EngineMetricsPoller, HttpProbe
from radixway.routing.transports.http_transport import HttpTransport
from radixway.routing.transports.traffic_feed import TrafficFeed, TrafficFollower, TrafficTap
from radixway.routing.transports.worker_client import WorkerClient, make_tokenize_call
from radixway.routing.transports.worker_responses import filter_reply_headers
from radixway.routing.transports.worker_surfaces import SurfaceSelection, WorkerSurfaceReader

__all__ = [
    "CHUNKS_PER_BLOCK",
    "EngineMetricsPoller",
    "FanOut",
    "FanOutCall",
    "FanOutResult",
    "HttpProbe",
    "HttpTransport",
    "RequestDispatcher",
    "RequestForwarder",
    "SurfaceSelection",
    "TrafficFeed",
    "TrafficFollower",
    "TrafficTap",
    "WorkerClient",
    "WorkerSurfaceReader",
    "filter_reply_headers",
    "make_tokenize_call",
]
