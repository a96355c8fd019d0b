"""The application that answers on the paths of chats, with errors in the published shape."""

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
from radixway.api.chats.lifespan import OPENAPI
from radixway.api.chats.messages import message_routes
from radixway.api.chats.plugins import plugin_routes
from radixway.api.chats.pull_socket import pull_routes
from radixway.api.chats.request_body import NulPathFilter
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
    """The application. It lives as long as the room runs.

    `erasure`: forgets a user in all rooms of the gateway; None: this one is all there is. `ring`: keys of the
    section `tenants`. `access`: of whoever runs the gateway.
    """
    app = FastAPI(
        title="Radixway: chats",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=OPENAPI,
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
