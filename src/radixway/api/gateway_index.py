"""`/`: browsers are led to the console, all others get an index of what is served. `/docs`: the HTTP API."""

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from radixway._version import __version__
from radixway.core.http import LazyRouter

_LINKS = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "models": "/v1/models",
    "chat_completions": "/v1/chat/completions",
    "health": "/health",
    "metrics": "/metrics/prometheus",
}

_REFERENCE_PAGE = (files(__package__) / "reference_page.html").read_text("utf-8")
_REFERENCE_HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
}


def index_routes(*, has_console: bool) -> APIRouter:
    """Build `/` and `/docs`, which need no key. `has_console`: there is a console to lead browsers to."""
    router = LazyRouter(tags=["gateway"])
    links = _LINKS | ({"console": "/console"} if has_console else {})

    @router.head("/", include_in_schema=False)
    @router.get("/")
    async def index(request: Request) -> Response:
        """Lead a browser to the console; tell any other client the version, and paths to go on with."""
        vary = {"vary": "accept"}
        if has_console and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/console", 307, vary)
        told: dict[str, Any] = {"name": "Radixway", "version": __version__, "links": links}
        return JSONResponse(told, headers=vary)

    @router.get("/docs", include_in_schema=False)
    async def reference() -> Response:
        """Show `/openapi.json` to people, with nothing that is loaded from elsewhere."""
        return HTMLResponse(_REFERENCE_PAGE, headers=_REFERENCE_HEADERS)

    @router.get("/redoc", include_in_schema=False)
    async def former_reference() -> Response:
        """Lead to the page that took this one's place."""
        return RedirectResponse("/docs", 308)

    return router
