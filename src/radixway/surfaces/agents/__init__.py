"""Sessions over HTTP: agents call models through them in their own protocols, trainers fetch their samples.

agent ─► AgentCalls ─ wire.read ─► AgentRoad ─ keeper.begin ─► Pipeline ─ /generate, token ids ─► worker
agent ◄─ wire's reply or events ◄─ AnswerEvents ◄─ keeper.end ◄─ Heard ◄──────────────────────────┘
"""

from radixway.surfaces.agents.calls import SessionCallRouter, SessionRequestHandler
from radixway.surfaces.agents.keeper import SessionService
from radixway.surfaces.agents.road import SessionDispatcher
from radixway.surfaces.agents.routes import count_routes, session_routes

__all__ = [
    "SessionCallRouter",
    "SessionDispatcher",
    "SessionRequestHandler",
    "SessionService",
    "count_routes",
    "session_routes",
]
