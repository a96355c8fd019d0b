"""Errors in the published shape, FastAPI 0.88's with pydantic 1 (`{"detail": …}`), and in OpenAI's."""

import logging
import math
import re
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from radixway.api.error_handlers import error_response
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
from radixway.chat.login import LoginError
from radixway.chat.user_tokens import InvalidTokenError
from radixway.core.http import BadBodyError, ClientDisconnectedError, HttpError, MethodNotAllowedError

log = logging.getLogger(__name__)

_CHAT_ERRORS: tuple[tuple[type[ChatError], int, str], ...] = (
    (ChatNotFoundError, 404, "not_found"),
    (ChatTooLargeError, 413, "too_large"),
    (ChatLimitExceededError, 429, "rate_limit_exceeded"),
    (ChatBusyError, 409, "occupied"),
    (ChatQueueFullError, 503, "queue_full"),
    (IdempotencyKeyReusedError, 422, "idempotency_key_reused"),
    (ChatError, 400, "invalid_value"),
)
"""The first that fits gives status and code."""

_BOUNDS = {
    "greater_than": ("number.not_gt", "gt", "greater than {}"),
    "greater_than_equal": ("number.not_ge", "ge", "greater than or equal to {}"),
    "less_than": ("number.not_lt", "lt", "less than {}"),
    "less_than_equal": ("number.not_le", "le", "less than or equal to {}"),
}
_LENGTHS = {
    "string_too_long": ("any_str.max_length", "max_length", "has at most {} characters"),
    "string_too_short": ("any_str.min_length", "min_length", "has at least {} characters"),
    "too_long": ("list.max_items", "max_length", "has at most {} items"),
    "too_short": ("list.min_items", "min_length", "has at least {} items"),
}
_TYPES = {
    "missing": ("value_error.missing", "field required"),
    "json_invalid": ("value_error.jsondecode", "the body is not JSON"),
    "int_parsing": ("type_error.integer", "value is not a valid integer"),
    "int_type": ("type_error.integer", "value is not a valid integer"),
    "int_from_float": ("type_error.integer", "value is not a valid integer"),
    "float_parsing": ("type_error.float", "value is not a valid float"),
    "float_type": ("type_error.float", "value is not a valid float"),
    "bool_parsing": ("type_error.bool", "value could not be parsed to a boolean"),
    "bool_type": ("type_error.bool", "value could not be parsed to a boolean"),
    "string_type": ("type_error.str", "str type expected"),
    "list_type": ("type_error.list", "value is not a valid list"),
    "dict_type": ("type_error.dict", "value is not a valid dict"),
    "model_attributes_type": ("type_error.dict", "value is not a valid dict"),
}


def as_http_error(error: Exception) -> HttpError:
    """Convert `error` of chats, their logins or database to one of HTTP. Raises any unexpected `error`."""
    match error:
        case HttpError():
            return error
        case ChatError():
            status, code = next(
                (status, code) for kind, status, code in _CHAT_ERRORS if isinstance(error, kind)
            )
            after_s = 1 if status == 503 else None
            if isinstance(error, ChatLimitExceededError):
                after_s = max(1, math.ceil(error.retry_after_s))
            param = error.field if isinstance(error, InvalidFieldError) else None
            return HttpError(str(error), status=status, code=code, param=param, retry_after_s=after_s)
        case InvalidTokenError():
            return HttpError(str(error), status=error.status)
        case LoginError():
            log.info("a login failed: %s", error)
            after_s = 5 if error.status == 503 else None
            return HttpError(f"Login failed: {error}", status=error.status, retry_after_s=after_s)
        case IntegrityError():  # what was there when it was asked for was deleted before it was written to
            log.warning("a call refers to a deleted row: %s", type(error.__cause__ or error).__name__)
            return HttpError("Deleted meanwhile", status=409, code="deleted")
        case SQLAlchemyError() if is_outage(error):
            message = "The database does not answer"
            return HttpError(message, status=503, code="chats_unavailable", retry_after_s=1)
    raise error


def add_published_error_handlers(app: FastAPI) -> None:
    """Have `app` reply with every client error in the published shape."""
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(InvalidFieldError, _handle_invalid_field)
    for kind in (HttpError, ChatError, InvalidTokenError, LoginError, SQLAlchemyError):
        app.add_exception_handler(kind, _reply_in_published_shape)


def add_openai_error_handlers(app: FastAPI) -> None:
    """Have `app` reply with every client error in OpenAI's shape."""
    app.add_exception_handler(HTTPException, _handle_unknown_path)
    app.add_exception_handler(ClientDisconnectedError, _handle_client_gone)
    app.add_exception_handler(ClientDisconnect, _handle_client_gone)
    for kind in (HttpError, ChatError, SQLAlchemyError):
        app.add_exception_handler(kind, _reply_in_openai_shape)


def not_found_error(what: str, given: str, param: str, *, code: str = "not_found") -> HttpError:
    """Build the error (404) of a `what` with the id `given` that is not the caller's."""
    return HttpError(f"{what} with id {given[:80]!r} not found.", status=404, code=code, param=param)


def previous_not_found_error(given: str) -> HttpError:
    """Build the error of an unknown previous response `given`: 400, as OpenAI answers."""
    return BadBodyError(
        f"Previous response with id {given[:80]!r} not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def as_pydantic1_error(error: Mapping[str, Any]) -> dict[str, Any]:
    """Translate an `error` of pydantic 2 to the words of pydantic 1."""
    kind, context, at = error["type"], error.get("ctx", {}), {"loc": list(error["loc"])}
    for table, phrase in ((_BOUNDS, "is "), (_LENGTHS, "")):
        if kind in table:
            name, bound, text = table[kind]
            value = context[bound]
            return at | {
                "msg": f"ensure this value {phrase}{text.format(value)}",
                "type": f"value_error.{name}",
                "ctx": {"limit_value": value},
            }
    if kind in ("literal_error", "enum"):
        permitted = re.findall(r"'([^']*)'", context["expected"])
        values = ", ".join(f"'{value}'" for value in permitted)
        return at | {
            "msg": f"value is not a valid enumeration member; permitted: {values}",
            "type": "type_error.enum",
            "ctx": {"enum_values": permitted},
        }
    named, text = _TYPES.get(kind, (f"value_error.{kind}", error["msg"]))
    return at | {"msg": text, "type": named}


async def _reply_in_published_shape(_: Request, error: Exception) -> Response:
    refusal = as_http_error(error)
    after_s = refusal.retry_after_s
    headers = {} if after_s is None else {"Retry-After": str(after_s)}
    return JSONResponse({"detail": refusal.client_message}, refusal.status, headers)


async def _reply_in_openai_shape(_: Request, error: Exception) -> Response:
    return error_response(as_http_error(error))


async def _handle_validation_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"detail": [as_pydantic1_error(mistake) for mistake in error.errors()]}, 422)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, HttpError):  # FastAPI has met it while it read the body
        return await _reply_in_published_shape(request, error.__cause__)
    return JSONResponse({"detail": error.detail}, error.status_code, dict(error.headers or {}))


async def _handle_invalid_field(_: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidFieldError)
    mistake = {"loc": ["body", error.field], "msg": str(error), "type": "value_error"}
    return JSONResponse({"detail": [mistake]}, error.status)


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
