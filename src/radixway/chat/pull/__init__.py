"""Pull workers: they connect by WebSocket and fetch the jobs of their queue.

`PullWorker` is one connection, `WorkerSessions` are those of all processes, `PUBLISHED` and `OVERVIEW` are
the two wire protocols of Open-Assistant: as its code has it, and as its overview describes it.
"""

from radixway.chat.pull.dialects import OVERVIEW, PUBLISHED, WorkerDialect
from radixway.chat.pull.frames import InvalidFrameError, WorkerInfo, encode_server_frame
from radixway.chat.pull.worker_connection import ConnectionGoneError, PullWorker, WorkerSocket, WorkerTimeouts
from radixway.chat.pull.worker_sessions import WorkerSession, WorkerSessions

__all__ = [
    "OVERVIEW",
    "PUBLISHED",
    "ConnectionGoneError",
    "InvalidFrameError",
    "PullWorker",
    "WorkerDialect",
    "WorkerInfo",
    "WorkerSession",
    "WorkerSessions",
    "WorkerSocket",
    "WorkerTimeouts",
    "encode_server_frame",
]
