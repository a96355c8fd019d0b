"""The application that answers on the paths of responses and conversations, with OpenAI's errors."""

from __future__ import annotations

from fastapi import FastAPI

from radixway import __version__
from radixway.surfaces.chats.responses.conversations import conversation_routes
from radixway.surfaces.chats.responses.errors import add_openai_error_handlers
from radixway.surfaces.chats.responses.owners import ResponseOwners
from radixway.surfaces.chats.responses.paths import OPENAPI
from radixway.surfaces.chats.responses.room import ResponseService
from radixway.surfaces.chats.responses.routes import response_routes
from radixway.web import include_routes


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
