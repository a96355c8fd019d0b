"""Sessions over HTTP: agents call models through them in their own protocols, trainers fetch their samples.
Start in `dispatch.py`.

agent ─► SessionRequestHandler ─ parse_request ─► SessionDispatcher ─ begin_turn ─► Pipeline ─ /generate ─►
worker
agent ◄─ encode_reply or AnswerEvents ◄─ record_call ◄─ GenerateResponseReader ◄────────────────────────────┘
"""

from radixway.api.sessions.dispatch import SessionCallRouter, SessionDispatcher, SessionRequestHandler
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
