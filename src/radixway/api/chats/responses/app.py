"""The application that answers on the paths of responses and conversations, with OpenAI's errors."""

from __future__ import annotations

from fastapi import FastAPI

from radixway._version import __version__
from radixway.api.chats.paths import OPENAPI
from radixway.api.chats.responses.conversations import conversation_routes
from radixway.api.chats.responses.errors import add_openai_error_handlers
from radixway.api.chats.responses.owners import ResponseOwners
from radixway.api.chats.responses.routes import response_routes
from radixway.api.chats.responses.service import ResponseService
from radixway.core.http import include_routes


def build_responses_app(room: ResponseService, owners: ResponseOwners) -> FastAPI:
    """The application. It lives as long as the room runs."""
    app = FastAPI(
        title="Radixway: responses",
        version=__version__,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_openai_error_handlers(app)
    include_routes(app.router, response_routes(room, owners), conversation_routes(room, owners))
    return app
