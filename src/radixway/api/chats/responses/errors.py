"""Errors in OpenAI's shape."""

from __future__ import annotations

import logging
import math

from fastapi import FastAPI, Request, Response
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from radixway.api.chats.errors import status_of_chat_error
from radixway.api.error_handlers import error_response, handle_http_error
from radixway.chat.database_outages import is_outage
from radixway.chat.errors import ChatError, ChatLimitExceededError, InvalidFieldError
from radixway.core.http import ClientDisconnectedError, HttpError, MethodNotAllowedError

log = logging.getLogger(__name__)


def add_openai_error_handlers(app: FastAPI) -> None:
    """Have `app` reply with every client error in that shape."""
    app.add_exception_handler(HttpError, handle_http_error)
    app.add_exception_handler(ChatError, _handle_chat_error)
    app.add_exception_handler(HTTPException, _handle_unknown_path)
    app.add_exception_handler(ClientDisconnectedError, _handle_client_gone)
    app.add_exception_handler(ClientDisconnect, _handle_client_gone)
    app.add_exception_handler(IntegrityError, _handle_deleted_row)
    app.add_exception_handler(SQLAlchemyError, _handle_database_error)


def not_found_error(what: str, given: str, param: str, *, code: str = "not_found") -> HttpError:
    """Build the error (404) of a `what` with the id `given` that is not the caller's."""
    return HttpError(f"{what} with id {given[:80]!r} not found.", status=404, code=code, param=param)


def previous_not_found_error(given: str) -> HttpError:
    """Build the error (404) of an unknown previous response `given`."""
    code = "previous_response_not_found"
    return not_found_error("Previous response", given, "previous_response_id", code=code)


def as_http_error(error: ChatError) -> HttpError:
    """Convert `error` of chats to an HTTP error."""
    status, code = status_of_chat_error(error)
    param = error.field if isinstance(error, InvalidFieldError) else None
    after_s = (
        math.ceil(error.retry_after_s)
        if isinstance(error, ChatLimitExceededError)
        else 1
        if status == 503
        else None
    )
    return HttpError(str(error), status=status, code=code, param=param, retry_after_s=after_s)


async def _handle_chat_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ChatError)
    return error_response(as_http_error(error))


async def _handle_unknown_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, method = request.url.path, request.method
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return error_response(MethodNotAllowedError(path, method, allowed))
    message = f"{error.detail}: {method} {path}"
    return error_response(HttpError(message, status=error.status_code, code="not_found"))


async def _handle_client_gone(_: Request, error: Exception) -> Response:
    return Response(status_code=499)


async def _handle_deleted_row(_: Request, error: Exception) -> Response:
    """What was there when it was asked for was deleted before it was written to."""
    log.warning("a call refers to what is gone: %s", type(error.__cause__ or error).__name__)
    return error_response(HttpError("Deleted meanwhile", status=409, code="deleted"))


async def _handle_database_error(_: Request, error: Exception) -> Response:
    """The database cannot be reached; any other error of its is a defect of ours."""
    if not isinstance(error, SQLAlchemyError) or not is_outage(error):
        raise error
    message = "The database does not answer"
    return error_response(HttpError(message, status=503, code="chats_unavailable", retry_after_s=1))
