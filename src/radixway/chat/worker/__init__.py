"""Our pull worker: fetches jobs from a chat server by WebSocket and answers them with any engine over HTTP.

It needs nothing but the base installation, and speaks to the published server as well as to ours.
"""

from radixway.chat.worker.engines import Engine, EngineError, detect
from radixway.chat.worker.prompts import PromptFormat
from radixway.chat.worker.safety import Safety
from radixway.chat.worker.worker import ServerRefused, Serves, Worker

__all__ = ["Engine", "EngineError", "PromptFormat", "Safety", "ServerRefused", "Serves", "Worker", "detect"]
