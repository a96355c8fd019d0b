"""Our pull worker: fetches jobs from a chat server by WebSocket and answers them with any engine over HTTP.

It needs nothing but the base installation, and speaks to the published server as well as to ours.
"""

from radixway.chat.worker.engines import UpstreamEngine, UpstreamEngineError, detect_engine
from radixway.chat.worker.prompts import PromptFormat
from radixway.chat.worker.safety import WorkerSafetyClient
from radixway.chat.worker.worker import ChatWorker, ServedModel, ServerRejectedError

__all__ = [
    "ChatWorker",
    "PromptFormat",
    "ServedModel",
    "ServerRejectedError",
    "UpstreamEngine",
    "UpstreamEngineError",
    "WorkerSafetyClient",
    "detect_engine",
]
