"""What went wrong, as OpenAI's clients read it."""

from __future__ import annotations

import logging
import math

from fastapi import FastAPI, Request, Response
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from radixway.chat.errors import Busy, ChatError, Invalid, KeyReused, NotFound, Occupied, TooLarge, TooMany
from radixway.chat.outages import is_away
from radixway.web import ClientGone, HttpError, MethodNotAllowed

log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[ChatError], int, str], ...] = (
    (NotFound, 404, "not_found"),
    (TooLarge, 413, "too_large"),
    (TooMany, 429, "rate_limit_exceeded"),
    (Occupied, 409, "occupied"),
    (Busy, 503, "queue_full"),
    (KeyReused, 422, "idempotency_key_reused"),
)


def add_error_handlers(app: FastAPI) -> None:
    """Every mistake of whoever asks is told in that shape."""
    app.add_exception_handler(HttpError, _told)
    app.add_exception_handler(ChatError, _impossible)
    app.add_exception_handler(HTTPException, _unknown_path)
    app.add_exception_handler(ClientGone, _gone)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(IntegrityError, _deleted)
    app.add_exception_handler(SQLAlchemyError, _away)


def not_found(what: str, given: str, param: str, *, code: str = "not_found") -> HttpError:
    """There is no such thing, or it is another's."""
    return HttpError(f"{what} with id {given[:80]!r} not found.", status=404, code=code, param=param)


def no_previous(given: str) -> HttpError:
    """There is no such response to go on from."""
    code = "previous_response_not_found"
    return not_found("Previous response", given, "previous_response_id", code=code)


def as_http(error: ChatError) -> HttpError:
    """The same for HTTP."""
    status, code = next(
        ((status, code) for kind, status, code in _STATUS if isinstance(error, kind)), (400, "invalid_value")
    )
    param = error.field if isinstance(error, Invalid) else None
    after_s = math.ceil(error.retry_after_s) if isinstance(error, TooMany) else 1 if status == 503 else None
    return HttpError(str(error), status=status, code=code, param=param, retry_after_s=after_s)


def response_of(error: HttpError) -> Response:
    """An error as the whole answer."""
    headers = {name.decode("ascii"): value.decode("ascii") for name, value in error.headers()}
    return Response(error.body(), error.status, headers)


async def _told(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return response_of(error)


async def _impossible(_: Request, error: Exception) -> Response:
    assert isinstance(error, ChatError)
    return response_of(as_http(error))


async def _unknown_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, method = request.url.path, request.method
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return response_of(MethodNotAllowed(path, method, allowed))
    message = f"{error.detail}: {method} {path}"
    return response_of(HttpError(message, status=error.status_code, code="not_found"))


async def _gone(_: Request, error: Exception) -> Response:
    return Response(status_code=499)


async def _deleted(_: Request, error: Exception) -> Response:
    """What was there when it was asked for was deleted before it was written to."""
    log.warning("a call refers to what is gone: %s", type(error.__cause__ or error).__name__)
    return response_of(HttpError("Deleted meanwhile", status=409, code="deleted"))


async def _away(_: Request, error: Exception) -> Response:
    """The database cannot be reached; any other error of its is a defect of ours."""
    if not isinstance(error, SQLAlchemyError) or not is_away(error):
        raise error
    message = "The database does not answer"
    return response_of(HttpError(message, status=503, code="chats_unavailable", retry_after_s=1))
