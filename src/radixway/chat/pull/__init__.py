"""Pull workers: they connect by WebSocket and fetch the jobs of their queue.

`PullWorker` is one connection, `Sessions` are those of all processes, `PUBLISHED` and `OVERVIEW` what they
speak.
"""

from radixway.chat.pull.connection import Gone, Link, Patience, PullWorker
from radixway.chat.pull.dialects import OVERVIEW, PUBLISHED, Dialect
from radixway.chat.pull.frames import BadFrame, WorkerInfo, to_worker
from radixway.chat.pull.sessions import Session, Sessions

__all__ = [
    "OVERVIEW",
    "PUBLISHED",
    "BadFrame",
    "Dialect",
    "Gone",
    "Link",
    "Patience",
    "PullWorker",
    "Session",
    "Sessions",
    "WorkerInfo",
    "to_worker",
]
