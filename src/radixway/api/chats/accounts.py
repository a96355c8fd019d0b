"""Users: logins and tokens (`/auth`), accounts (`/account`, `/v1/account`), and administration (`/admin`)."""

import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.responses import StreamingResponse

from radixway.api.admin_access import AdminAccess
from radixway.api.chats.auth_dependencies import OPERATOR, ChatAuthenticator
from radixway.api.chats.bodies import NewPullWorker
from radixway.chat.records import PullWorkerRecord
from radixway.chat.service import ChatService
from radixway.chat.user_tokens import TokenPair
from radixway.core.component import CannotErase, Subject
from radixway.core.config import DEFAULT_TENANT
from radixway.core.erasure import ErasureService
from radixway.core.http import HttpError, LazyRouter, include_routes

_PUBLISHED = ("discord", "github", "google")
_PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer"}
Name = Annotated[str, Path(max_length=64)]


def auth_routes(
    service: ChatService, auth: ChatAuthenticator, access: AdminAccess | None = None
) -> APIRouter:
    """Build logins and tokens; `access` is the operator's."""
    router = LazyRouter(prefix="/auth", tags=["auth"])

    @router.get("/check")
    async def check(user: Annotated[str, Depends(auth.require_user)]) -> str:
        """Return the id of the token's user."""
        return user

    @router.get("/providers")
    async def providers() -> list[str]:
        """List the providers by which users may log in."""
        debug = ["debug"] if service.config.allow_debug_auth else []
        ours = [name for name in service.logins.names if name in _PUBLISHED]
        return ours + debug + [name for name in service.logins.names if name not in _PUBLISHED]

    @router.get("/refresh")
    async def refresh(refresh: Annotated[str, Header(min_length=1, max_length=8192)]) -> dict[str, Any]:
        """A new pair of tokens for a refresh token, which serves once."""
        pair = await service.token_issuer.refresh_pair(refresh)
        return {"access_token": pair.access, "token_type": "bearer"} | {"refresh_token": pair.refresh}

    @router.get("/login/debug")
    async def debug_login(
        username: Annotated[str, Query(min_length=1, max_length=256)], state: str = "{}"
    ) -> None:
        """Redirect to the callback, as real providers do."""
        _require_debug_auth(service)
        query = urlencode({"code": username, "state": state})
        raise HTTPException(302, headers={"Location": f"/auth/callback/debug?{query}"})

    @router.get("/callback/debug")
    async def debug_callback(code: Annotated[str, Query(max_length=256)]) -> dict[str, Any]:
        """Issue tokens for a user of the name `code`."""
        _require_debug_auth(service)
        if not code:
            raise HTTPException(400, "Username is required")
        user = await service.accounts.enroll_user(DEFAULT_TENANT, "debug", code, code, new_id=code)
        return token_pair_object(await service.token_issuer.issue_pair(user.id))

    @router.get("/login/{provider}", status_code=302, response_class=RedirectResponse)
    async def login(provider: Name) -> RedirectResponse:
        """Redirect to the login of `provider`."""
        return RedirectResponse(await service.logins.begin(provider), 302, _PRIVATE)

    @router.get("/callback/{provider}")
    async def callback(
        provider: Name,
        response: Response,
        code: Annotated[str | None, Query(min_length=1, max_length=4096)] = None,
        state: Annotated[str | None, Query(min_length=1, max_length=4096)] = None,
        iss: Annotated[str | None, Query(max_length=2048)] = None,
        error: Annotated[str | None, Query(max_length=256)] = None,
    ) -> dict[str, Any]:
        """Issue tokens for the user that `provider` has sent back."""
        response.headers.update(_PRIVATE)
        if error is not None:
            service.logins.known(provider)
            raise HTTPException(400, f"The provider refused: {error}")
        missing = [name for name, value in (("code", code), ("state", state)) if value is None]
        if code is None or state is None:
            mistakes = [{"loc": ("query", name), "type": "missing", "msg": ""} for name in missing]
            raise RequestValidationError(mistakes)
        return token_pair_object(await service.logins.end(provider, code, state, iss))

    @router.post("/operator")
    async def operator(request: Request, response: Response) -> dict[str, Any]:
        """Issue tokens for the operator, who passes by the admin key or from this machine."""
        if access is None:
            raise HTTPException(404, "Not Found")
        try:
            access(request)
        except HttpError as error:
            raise HTTPException(error.status, str(error)) from None
        response.headers.update(_PRIVATE)
        user = await service.accounts.enroll_user(
            DEFAULT_TENANT, OPERATOR, OPERATOR, "Operator", new_id=str(uuid.uuid4())
        )
        return token_pair_object(await service.token_issuer.issue_pair(user.id))

    @router.post("/trusted")
    async def trusted(request: Request) -> dict[str, Any]:
        """Return the user whom a trusted server speaks for, creating the account where there is none."""
        user = await auth.enroll_user(request)
        return {
            "id": user.id,
            "provider": user.provider,
            "provider_account_id": user.provider_account_id,
            "display_name": user.display_name,
            "deleted": user.deleted,
        }

    return router


def token_pair_object(pair: TokenPair) -> dict[str, Any]:
    """Build the published shape of `pair`."""
    return {
        "access_token": {"access_token": pair.access, "token_type": "bearer"},
        "refresh_token": {"access_token": pair.refresh, "token_type": "refresh"},
    }


def _require_debug_auth(service: ChatService) -> None:
    if not service.config.allow_debug_auth:
        raise HTTPException(403, "Debug auth is not allowed")


_HIDDEN = "********"
"""Shown in place of a key, of which only a hash is stored."""


def account_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build the routes that delete accounts and tokens, and that register pull workers."""
    router = LazyRouter(tags=["accounts"])

    @router.delete("/account/")
    async def leave(user: Annotated[str, Depends(auth.require_user)]) -> Response:
        """Delete the user."""
        await service.accounts.delete_user(user)
        await service.user_erasure.end_answers([user])
        return Response()

    @router.delete("/account", include_in_schema=False)
    async def leave_by_way() -> RedirectResponse:
        """Redirect to the path with its slash, as published."""
        return RedirectResponse("/account/", 307)

    admin = LazyRouter(prefix="/admin", dependencies=[Depends(auth.require_admin)])

    @admin.delete("/refresh_tokens/{user_id}")
    async def revoke(user_id: str) -> Response:
        """Revoke the refresh tokens of `user_id`."""
        await service.token_issuer.revoke_user(user_id)
        return Response()

    @admin.delete("/users/{user_id}")
    async def remove(user_id: str) -> Response:
        """Delete the user `user_id`."""
        await service.accounts.delete_user(user_id)
        await service.user_erasure.end_answers([user_id])
        return Response()

    @admin.put("/workers")
    async def let_in(body: NewPullWorker) -> dict[str, Any]:
        """Register a pull worker; its key is shown once."""
        worker, key = await service.workers.create_worker(body.name, trusted=body.trusted)
        return _worker_object(worker, key)

    @admin.get("/workers")
    async def workers() -> list[dict[str, Any]]:
        """List the registered pull workers."""
        return [_worker_object(worker, _HIDDEN) for worker in await service.workers.list_workers()]

    @admin.delete("/workers/{worker_id}")
    async def shut_out(worker_id: str) -> Response:
        """Revoke the key of the pull worker `worker_id`."""
        await service.workers.delete_worker(worker_id)
        return Response()

    include_routes(router, admin)
    return router


def _worker_object(worker: PullWorkerRecord, key: str) -> dict[str, Any]:
    return {"id": worker.id, "name": worker.name, "api_key": key, "trusted": worker.trusted}


NDJSON = "application/x-ndjson"
NDJSON_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {NDJSON: {"schema": {"type": "string"}}}}
}
_HEADERS = {"cache-control": "no-store", "content-disposition": 'attachment; filename="account.jsonl"'}
_UserId = Annotated[str, Path(max_length=256, pattern=r"^[^\x00]*$")]


def privacy_routes(
    service: ChatService, auth: ChatAuthenticator, erasure: ErasureService | None
) -> APIRouter:
    """Build export and erasure of a user's data; without `erasure` only chats are erased."""
    router = LazyRouter(tags=["privacy"])
    User = Annotated[str, Depends(auth.require_user)]

    @router.get("/v1/account/export", responses=NDJSON_RESPONSES, response_class=StreamingResponse)
    async def export(user: User) -> StreamingResponse:
        """Export every row of the user, as JSON lines."""
        return _attachment_response(await service.account_export.export_user(user))

    @router.get(
        "/admin/users/{user_id}/export",
        responses=NDJSON_RESPONSES,
        response_class=StreamingResponse,
        dependencies=[Depends(auth.require_admin)],
    )
    async def export_of(user_id: _UserId) -> StreamingResponse:
        """Export every row of `user_id`, even after that user left."""
        return _attachment_response(await service.account_export.export_user(user_id))

    @router.delete("/v1/account", responses={202: {"description": "The rest is asked again till it is done"}})
    async def erase(user: User) -> JSONResponse:
        """Erase the user with all their chats, in every component of the gateway."""
        known = await service.accounts.find_user(user)
        if erasure is not None:
            erased = await erasure.erase_everywhere(Subject(known.tenant, known.gateway_user))
            return JSONResponse(erased.to_dict(), 200 if erased.is_complete else 202)
        try:
            await service.user_erasure.erase_users(known.tenant, known.id)
        except CannotErase:
            return JSONResponse({"complete": False}, 202)
        return JSONResponse({"complete": True})

    return router


def _attachment_response(lines: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(lines, media_type=NDJSON, headers=_HEADERS)
