"""Our pull worker: fetches jobs from a chat server by WebSocket and answers them with any engine over HTTP.

It needs nothing but the base installation, and speaks to the published server as well as to ours.
"""

from radixway.chat.worker.chat_worker import ChatWorker, ServedModel, ServerRejectedError, WorkerSafetyClient
from radixway.chat.worker.prompt_format import PromptFormat
from radixway.chat.worker.upstream_engines import UpstreamEngine, UpstreamEngineError, detect_engine

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
