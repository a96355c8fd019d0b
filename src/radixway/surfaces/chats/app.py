"""The application that answers on the paths of chats, with errors in the published shape."""

from __future__ import annotations

from fastapi import FastAPI

from radixway import __version__
from radixway.chat.room import ChatService
from radixway.erasure import ErasureService
from radixway.surfaces.access import AdminAccess
from radixway.surfaces.chats.accounts import account_routes
from radixway.surfaces.chats.auth import auth_routes
from radixway.surfaces.chats.bodies import NulPathFilter
from radixway.surfaces.chats.chats import chat_routes
from radixway.surfaces.chats.configs import config_routes
from radixway.surfaces.chats.errors import add_published_error_handlers
from radixway.surfaces.chats.messages import message_routes
from radixway.surfaces.chats.opening import OPENAPI
from radixway.surfaces.chats.plugins import plugin_routes
from radixway.surfaces.chats.privacy import privacy_routes
from radixway.surfaces.chats.pull import pull_routes
from radixway.surfaces.chats.v1 import v1_routes
from radixway.surfaces.chats.who import ChatAuthenticator
from radixway.tenants import KeyRing
from radixway.web import include_routes


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
