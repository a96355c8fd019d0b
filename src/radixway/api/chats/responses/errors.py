"""What went wrong, as OpenAI's clients read it."""

from __future__ import annotations

import logging
import math

from fastapi import FastAPI, Request, Response
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from radixway.chat.database_outages import is_outage
from radixway.chat.errors import (
    ChatBusyError,
    ChatError,
    ChatLimitExceededError,
    ChatNotFoundError,
    ChatQueueFullError,
    ChatTooLargeError,
    IdempotencyKeyReusedError,
    InvalidFieldError,
)
from radixway.core.http import ClientDisconnectedError, HttpError, MethodNotAllowedError

log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[ChatError], int, str], ...] = (
    (ChatNotFoundError, 404, "not_found"),
    (ChatTooLargeError, 413, "too_large"),
    (ChatLimitExceededError, 429, "rate_limit_exceeded"),
    (ChatBusyError, 409, "occupied"),
    (ChatQueueFullError, 503, "queue_full"),
    (IdempotencyKeyReusedError, 422, "idempotency_key_reused"),
)


def add_openai_error_handlers(app: FastAPI) -> None:
    """Every mistake of whoever asks is told in that shape."""
    app.add_exception_handler(HttpError, _handle_http_error)
    app.add_exception_handler(ChatError, _handle_chat_error)
    app.add_exception_handler(HTTPException, _handle_unknown_path)
    app.add_exception_handler(ClientDisconnectedError, _handle_client_gone)
    app.add_exception_handler(ClientDisconnect, _handle_client_gone)
    app.add_exception_handler(IntegrityError, _handle_deleted_row)
    app.add_exception_handler(SQLAlchemyError, _handle_database_error)


def not_found_error(what: str, given: str, param: str, *, code: str = "not_found") -> HttpError:
    """There is no such thing, or it is another's."""
    return HttpError(f"{what} with id {given[:80]!r} not found.", status=404, code=code, param=param)


def previous_not_found_error(given: str) -> HttpError:
    """There is no such response to go on from."""
    code = "previous_response_not_found"
    return not_found_error("Previous response", given, "previous_response_id", code=code)


def as_http_error(error: ChatError) -> HttpError:
    """The same for HTTP."""
    status, code = next(
        ((status, code) for kind, status, code in _STATUS if isinstance(error, kind)), (400, "invalid_value")
    )
    param = error.field if isinstance(error, InvalidFieldError) else None
    after_s = (
        math.ceil(error.retry_after_s)
        if isinstance(error, ChatLimitExceededError)
        else 1
        if status == 503
        else None
    )
    return HttpError(str(error), status=status, code=code, param=param, retry_after_s=after_s)


def error_response(error: HttpError) -> Response:
    """An error as the whole answer."""
    headers = {name.decode("ascii"): value.decode("ascii") for name, value in error.headers()}
    return Response(error.body(), error.status, headers)


async def _handle_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return error_response(error)


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
