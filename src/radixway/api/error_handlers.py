"""What goes wrong on the paths that FastAPI serves, in the shape of our errors."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from radixway.core.http import HttpError


def add_error_handlers(app: FastAPI) -> None:
    """Refusals, Starlette's own and defects are told alike."""
    app.add_exception_handler(HttpError, _handle_http_error)
    app.add_exception_handler(HTTPException, _handle_starlette_error)
    app.add_exception_handler(Exception, _handle_defect)


async def _handle_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    headers = {name.decode("ascii"): value.decode("ascii") for name, value in error.headers()}
    return Response(error.body(), error.status, headers)


async def _handle_starlette_error(request: Request, error: Exception) -> Response:
    """Starlette's own 404 and 405; or what FastAPI has made of an error of ours while it read the body."""
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, HttpError):
        return await _handle_http_error(request, error.__cause__)
    message = f"{error.detail}: {request.method} {request.url.path}"
    code = "not_found" if error.status_code == 404 else "invalid_request"
    return await _handle_http_error(request, HttpError(message, status=error.status_code, code=code))


async def _handle_defect(request: Request, error: Exception) -> Response:
    """A defect of ours; Starlette logs it."""
    return await _handle_http_error(request, HttpError(f"internal error ({type(error).__name__})"))
