"""The application that answers on the paths of chats, with errors in the published shape."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from radixway import __version__
from radixway.chat.credentials import BadToken
from radixway.chat.errors import Busy, ChatError, Invalid, NotFound, TooMany
from radixway.chat.room import ChatRoom
from radixway.surfaces.chats.accounts import account_routes
from radixway.surfaces.chats.auth import auth_routes
from radixway.surfaces.chats.chats import chat_routes
from radixway.surfaces.chats.configs import config_routes
from radixway.surfaces.chats.messages import message_routes
from radixway.surfaces.chats.v1 import v1_routes
from radixway.surfaces.chats.who import Who

_STATUS: dict[type[ChatError], int] = {NotFound: 404, TooMany: 429, Busy: 503}


def chat_app(room: ChatRoom) -> FastAPI:
    """The application. It lives as long as the room runs."""
    app = FastAPI(title="Radixway: chats", version=__version__, docs_url=None, redoc_url=None)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(ChatError, _impossible)
    app.add_exception_handler(Invalid, _invalid)
    app.add_exception_handler(BadToken, _bad_token)
    who = Who(room)
    for router in (
        auth_routes(room, who),
        chat_routes(room, who),
        message_routes(room, who),
        config_routes(room),
        account_routes(room, who),
        v1_routes(room, who),
    ):
        app.include_router(router)
    return app


async def _unreadable(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    told = [
        {"loc": list(each["loc"]), "msg": each["msg"], "type": f"value_error.{each['type']}"}
        for each in error.errors()
    ]
    return JSONResponse({"detail": told}, 422)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code, dict(error.headers or {}))


async def _impossible(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ChatError)
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)
    headers: dict[str, Any] = {"Retry-After": "1"} if status in (429, 503) else {}
    return JSONResponse({"detail": str(error)}, status, headers)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Invalid)
    told = {"loc": ["body", error.field], "msg": str(error), "type": "value_error"}
    return JSONResponse({"detail": [told]}, error.status)


async def _bad_token(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BadToken)
    return JSONResponse({"detail": str(error)}, error.status)
