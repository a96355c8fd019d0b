"""Sessions over HTTP: agents call models through them in their own protocols, trainers fetch their samples.

agent ─► AgentCalls ─ wire.read ─► AgentRoad ─ keeper.begin ─► Pipeline ─ /generate, token ids ─► worker
agent ◄─ wire's reply or events ◄─ AnswerEvents ◄─ keeper.end ◄─ Heard ◄──────────────────────────┘
"""

from radixway.surfaces.agents.calls import AgentCalls, AgentExchange
from radixway.surfaces.agents.keeper import SessionKeeper
from radixway.surfaces.agents.road import AgentRoad
from radixway.surfaces.agents.routes import count_routes, session_routes

__all__ = [
    "AgentCalls",
    "AgentExchange",
    "AgentRoad",
    "SessionKeeper",
    "count_routes",
    "session_routes",
]
