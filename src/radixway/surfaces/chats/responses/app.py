"""The application that answers on the paths of responses and conversations, with OpenAI's errors."""

from __future__ import annotations

from fastapi import FastAPI

from radixway import __version__
from radixway.surfaces.chats.responses.conversations import conversation_routes
from radixway.surfaces.chats.responses.errors import add_error_handlers
from radixway.surfaces.chats.responses.owners import Owners
from radixway.surfaces.chats.responses.paths import OPENAPI
from radixway.surfaces.chats.responses.room import ResponseRoom
from radixway.surfaces.chats.responses.routes import response_routes
from radixway.web import join


def responses_app(room: ResponseRoom, owners: Owners) -> FastAPI:
    """The application. It lives as long as the room runs."""
    app = FastAPI(
        title="Radixway: responses",
        version=__version__,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_error_handlers(app)
    join(app.router, response_routes(room, owners), conversation_routes(room, owners))
    return app
