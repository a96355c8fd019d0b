"""The applications of chats, with errors in the published shape, and of responses, with OpenAI's errors."""

from time import time

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from radixway._version import __version__
from radixway.api.admin_access import AdminAccess
from radixway.api.chats.accounts import account_routes, auth_routes, privacy_routes
from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.chats import chat_routes, message_routes
from radixway.api.chats.errors import add_openai_error_handlers, add_published_error_handlers
from radixway.api.chats.paths import CHATS_OPENAPI, RESPONSES_OPENAPI
from radixway.api.chats.plugins import config_routes, plugin_routes
from radixway.api.chats.pull_socket import pull_routes
from radixway.api.chats.responses.routes import conversation_routes, response_routes
from radixway.api.chats.responses.service import ResponseOwners, ResponseService
from radixway.api.chats.v1 import v1_routes
from radixway.chat.accounts import UserAccounts
from radixway.chat.asking_key import asking_key
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.local_completions import PipelineCall
from radixway.chat.service import ChatService
from radixway.core.erasure import ErasureService
from radixway.core.http import App, Receive, Scope, Send, include_routes
from radixway.core.pipeline import Caller, ForbiddenError, Reply, Request
from radixway.core.tenants import KeyRing, TenantService


class NulPathFilter:
    """An ASGI middleware. Nothing is named by U+0000, which PostgreSQL cannot even be asked for: 404."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "\x00" not in scope.get("path", "") and b"%00" not in scope.get("query_string", b""):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await JSONResponse({"detail": "Not Found"}, 404)(scope, receive, send)


async def send_as_tenant(
    request: Request,
    accounts: UserAccounts,
    tenants: TenantService | None,
    pipeline: PipelineCall,
) -> Reply:
    """Send a user's `request` through the pipeline as their tenant's, and as that of the key that asked for
    it. Raises UnauthorizedError, ForbiddenError."""
    try:
        user = await accounts.find_user(request.caller.user or "")
    except ChatNotFoundError:
        raise ForbiddenError("there is no such user any more") from None
    policy, access = None, None
    if tenants is not None and tenants.tenancies:
        if user.tenant not in tenants.tenancies:
            raise ForbiddenError(f"there is no tenant {user.tenant!r} any more")
        policy = tenants.tenancies[user.tenant]
        payer = tenants.ring.find_payer(user.tenant, asking_key.get())
        if payer is not None and payer.access is not None:
            payer.access.check_valid(time())
            policy, access = policy.narrowed_to(payer.models), payer.access
        request.journal.add("tenant", policy)
    request.caller = Caller(user.tenant, user.gateway_user, policy, access)
    return await pipeline(request)


def build_chat_app(
    service: ChatService,
    erasure: ErasureService | None = None,
    ring: KeyRing | None = None,
    access: AdminAccess | None = None,
) -> FastAPI:
    """Build the application of chats, which lives as long as `service` runs.

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
    auth = ChatAuthenticator(service, ring)
    include_routes(
        app.router,
        auth_routes(service, auth, access),
        chat_routes(service, auth),
        message_routes(service, auth),
        config_routes(service),
        plugin_routes(service),
        account_routes(service, auth),
        *v1_routes(service, auth),
        privacy_routes(service, auth, erasure),
        pull_routes(service, auth),
    )
    auth.authenticate_before_bodies(app.router.routes)
    return app


def build_responses_app(service: ResponseService, owners: ResponseOwners) -> FastAPI:
    """Build the application of responses and conversations, which lives as long as `service` runs."""
    app = FastAPI(
        title="Radixway: responses",
        version=__version__,
        openapi_url=RESPONSES_OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_openai_error_handlers(app)
    include_routes(app.router, response_routes(service, owners), conversation_routes(service, owners))
    return app
