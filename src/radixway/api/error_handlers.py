"""Errors on the paths that FastAPI serves: in OpenAI's shape, and in Anthropic's for its clients."""

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from radixway.api.messages.model_page import VERSION_HEADER
from radixway.core.http import HttpError, ReshapedError
from radixway.core.protocols import AnthropicAdapter

_ANTHROPIC = AnthropicAdapter()


def add_error_handlers(app: FastAPI) -> None:
    """Have `app` reply in one shape to refusals, Starlette's own errors and defects."""
    app.add_exception_handler(HttpError, handle_http_error)
    app.add_exception_handler(HTTPException, _handle_starlette_error)
    app.add_exception_handler(Exception, _handle_defect)


def error_response(error: HttpError) -> Response:
    """Build the whole reply to a request that met `error`."""
    headers = {name.decode("ascii"): value.decode("ascii") for name, value in error.headers()}
    return Response(error.body(), error.status, headers)


async def handle_http_error(request: Request, error: Exception) -> Response:
    """Reply with an `HttpError`; an exception handler of FastAPI's."""
    assert isinstance(error, HttpError)
    if VERSION_HEADER in request.headers:
        error = ReshapedError(error, _ANTHROPIC.encode_error_body(error))
    return error_response(error)


async def _handle_starlette_error(request: Request, error: Exception) -> Response:
    """Answer Starlette's 404 and 405, and errors of ours that FastAPI wrapped while it read the body."""
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, HttpError):
        return await handle_http_error(request, error.__cause__)
    message = f"{error.detail}: {request.method} {request.url.path}"
    code = "not_found" if error.status_code == 404 else "invalid_request"
    return await handle_http_error(request, HttpError(message, status=error.status_code, code=code))


async def _handle_defect(request: Request, error: Exception) -> Response:
    return await handle_http_error(request, HttpError(f"internal error ({type(error).__name__})"))
