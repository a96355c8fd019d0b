"""The applications of chats, with errors in the published shape, and of responses, with OpenAI's errors."""

from __future__ import annotations

from fastapi import FastAPI

from radixway._version import __version__
from radixway.api.admin_access import AdminAccess
from radixway.api.chats.accounts import account_routes, privacy_routes
from radixway.api.chats.auth import auth_routes
from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.chats import chat_routes
from radixway.api.chats.configs import config_routes
from radixway.api.chats.errors import add_published_error_handlers
from radixway.api.chats.messages import message_routes
from radixway.api.chats.paths import CHATS_OPENAPI, RESPONSES_OPENAPI
from radixway.api.chats.plugins import plugin_routes
from radixway.api.chats.pull_socket import pull_routes
from radixway.api.chats.request_body import NulPathFilter
from radixway.api.chats.responses.conversations import conversation_routes
from radixway.api.chats.responses.errors import add_openai_error_handlers
from radixway.api.chats.responses.owners import ResponseOwners
from radixway.api.chats.responses.routes import response_routes
from radixway.api.chats.responses.service import ResponseService
from radixway.api.chats.v1 import v1_routes
from radixway.chat.service import ChatService
from radixway.core.erasure import ErasureService
from radixway.core.http import include_routes
from radixway.core.tenants import KeyRing


def build_chat_app(
    room: ChatService,
    erasure: ErasureService | None = None,
    ring: KeyRing | None = None,
    access: AdminAccess | None = None,
) -> FastAPI:
    """Build the application of chats, which lives as long as `room` runs.

    `erasure` forgets a user in every component of the gateway; None: in chats alone. `ring`: keys of the
    section `tenants`. `access`: the operator's.
    """
    app = FastAPI(
        title="Radixway: chats",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=CHATS_OPENAPI,
    )
    app.add_middleware(NulPathFilter)
    add_published_error_handlers(app)
    who = ChatAuthenticator(room, ring)
    include_routes(
        app.router,
        auth_routes(room, who, access),
        chat_routes(room, who),
        message_routes(room, who),
        config_routes(room),
        plugin_routes(room),
        account_routes(room, who),
        v1_routes(room, who),
        privacy_routes(room, who, erasure),
        pull_routes(room, who),
    )
    who.authenticate_before_bodies(app.router.routes)
    return app


def build_responses_app(room: ResponseService, owners: ResponseOwners) -> FastAPI:
    """Build the application of responses and conversations, which lives as long as `room` runs."""
    app = FastAPI(
        title="Radixway: responses",
        version=__version__,
        openapi_url=RESPONSES_OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_openai_error_handlers(app)
    include_routes(app.router, response_routes(room, owners), conversation_routes(room, owners))
    return app
