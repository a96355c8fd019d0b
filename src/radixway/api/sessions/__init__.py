"""Sessions over HTTP: agents call models through them in their own protocols, trainers fetch their samples.

agent ─► AgentCalls ─ wire.read ─► AgentRoad ─ keeper.begin ─► Pipeline ─ /generate, token ids ─► worker
agent ◄─ wire's reply or events ◄─ AnswerEvents ◄─ keeper.end ◄─ Heard ◄──────────────────────────┘
"""

from radixway.api.sessions.calls import SessionCallRouter, SessionRequestHandler
from radixway.api.sessions.dispatch import SessionDispatcher
from radixway.api.sessions.routes import count_routes, session_routes
from radixway.api.sessions.session_service import SessionService

__all__ = [
    "SessionCallRouter",
    "SessionDispatcher",
    "SessionRequestHandler",
    "SessionService",
    "count_routes",
    "session_routes",
]
