"""`/`: browsers are led to the console, all others get an index of what is served."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

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


def index_routes(*, has_console: bool) -> APIRouter:
    """Build `/`, which needs no key. `has_console`: there is a console to lead browsers to."""
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

    return router
