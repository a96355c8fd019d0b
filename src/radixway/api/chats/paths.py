"""Which paths are those of responses and conversations, and what they say where there are no chats."""

from __future__ import annotations

from fastapi import APIRouter

from radixway.core.http import HttpError

ROOTS = frozenset({"responses", "conversations"})
"""Below `/v1`."""
OPENAPI = "/openapi/responses.json"
"""Where their OpenAPI is."""


def is_response_path(path: str) -> bool:
    """Whether that path is one of theirs."""
    first, _, rest = path[1:].partition("/")
    return (first == "v1" and rest.partition("/")[0] in ROOTS) or path == OPENAPI


def disabled_routes() -> APIRouter:
    """For a gateway whose chats are switched off."""
    router = APIRouter()

    async def closed() -> None:
        """Raises HttpError."""
        message = "responses are kept with chats, which are switched off here (chat.enabled: false)"
        raise HttpError(message, status=404, code="chats_disabled")

    for root in sorted(ROOTS):
        for path in (f"/v1/{root}", f"/v1/{root}/{{rest:path}}"):
            router.add_api_route(path, closed, methods=["GET", "POST", "DELETE"], include_in_schema=False)
    return router


def chats_unavailable_error() -> HttpError:
    """The chats that they are kept with do not work now."""
    message = (
        "responses are kept with chats, which cannot be opened: the gateway's log says why "
        "(they need radixway[chat])"
    )
    return HttpError(message, status=503, code="chats_unavailable", retry_after_s=5)
