"""Errors in the shape of the published service (FastAPI 0.88 with pydantic 1): `{"detail": …}`."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from starlette.exceptions import HTTPException

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
from radixway.core.http import HttpError

log = logging.getLogger(__name__)


_STATUS: tuple[tuple[type[ChatError], int, str], ...] = (
    (ChatNotFoundError, 404, "not_found"),
    (ChatTooLargeError, 413, "too_large"),
    (ChatLimitExceededError, 429, "rate_limit_exceeded"),
    (ChatBusyError, 409, "occupied"),
    (ChatQueueFullError, 503, "queue_full"),
    (IdempotencyKeyReusedError, 422, "idempotency_key_reused"),
)

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


def add_published_error_handlers(app: FastAPI) -> None:
    """Have `app` reply with every client error in that shape."""
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(HttpError, _handle_http_error)
    app.add_exception_handler(ChatError, _handle_chat_error)
    app.add_exception_handler(InvalidFieldError, _handle_invalid_field)
    app.add_exception_handler(InvalidTokenError, _handle_bad_token)
    app.add_exception_handler(LoginError, _handle_login_failure)
    app.add_exception_handler(IntegrityError, _handle_deleted_row)
    app.add_exception_handler(SQLAlchemyError, _handle_database_error)


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
        told = ", ".join(f"'{value}'" for value in permitted)
        return at | {
            "msg": f"value is not a valid enumeration member; permitted: {told}",
            "type": "type_error.enum",
            "ctx": {"enum_values": permitted},
        }
    named, text = _TYPES.get(kind, (f"value_error.{kind}", error["msg"]))
    return at | {"msg": text, "type": named}


def status_of_chat_error(error: ChatError) -> tuple[int, str]:
    """Return the HTTP status and OpenAI's code for `error`."""
    found = ((status, code) for kind, status, code in _STATUS if isinstance(error, kind))
    return next(found, (400, "invalid_value"))


async def _handle_validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"detail": [as_pydantic1_error(each) for each in error.errors()]}, 422)


async def _handle_http_exception(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, HttpError):  # FastAPI has met it while it read the body
        return await _handle_http_error(_, error.__cause__)
    return JSONResponse({"detail": error.detail}, error.status_code, dict(error.headers or {}))


async def _handle_http_error(_: Request, error: Exception) -> JSONResponse:
    """What the server that they share has refused."""
    assert isinstance(error, HttpError)
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    return JSONResponse({"detail": error.client_message}, error.status, headers)


async def _handle_chat_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ChatError)
    status, _code = status_of_chat_error(error)
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    if isinstance(error, ChatLimitExceededError):
        headers = {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
    return JSONResponse({"detail": str(error)}, status, headers)


async def _handle_invalid_field(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, InvalidFieldError)
    told = {"loc": ["body", error.field], "msg": str(error), "type": "value_error"}
    return JSONResponse({"detail": [told]}, error.status)


async def _handle_deleted_row(_: Request, error: Exception) -> JSONResponse:
    """What was there when it was asked for was deleted before it was written to."""
    log.warning("a call refers to what is gone: %s", type(error.__cause__ or error).__name__)
    return JSONResponse({"detail": "Deleted meanwhile"}, 409)


async def _handle_database_error(_: Request, error: Exception) -> JSONResponse:
    """The database cannot be reached; any other error of its is a defect of ours."""
    if not isinstance(error, SQLAlchemyError) or not is_outage(error):
        raise error
    return JSONResponse({"detail": "The database does not answer"}, 503, {"retry-after": "1"})


async def _handle_bad_token(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, InvalidTokenError)
    return JSONResponse({"detail": str(error)}, error.status)


async def _handle_login_failure(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, LoginError)
    log.info("a login failed: %s", error)
    headers = {"Retry-After": "5"} if error.status == 503 else {}
    return JSONResponse({"detail": f"Login failed: {error}"}, error.status, headers)
