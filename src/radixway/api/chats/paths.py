"""The paths of chats, responses and conversations, and the replies where there are no chats."""

from fastapi import APIRouter

from radixway.core.http import HttpError, LazyRouter

CHATS_OPENAPI = "/openapi/chats.json"
RESPONSES_OPENAPI = "/openapi/responses.json"
_CHAT_ROOTS = frozenset({"auth", "chats", "configs", "account", "plugins"})
_CHAT_V1_ROOTS = frozenset({"account", "chats", "webhooks"})
_CHAT_ADMIN_ROOTS = frozenset({"workers", "refresh_tokens", "users"})
_PULL_PATHS = frozenset({"/work", "/workers/work", "/workers/sessions"})
"""Paths of pull workers; the rest of `/workers` is about workers that the gateway sends requests to."""
_RESPONSE_V1_ROOTS = frozenset({"responses", "conversations"})


def is_chat_path(path: str) -> bool:
    """Return whether `path` belongs to chats, responses or conversations."""
    first, _, rest = path[1:].partition("/")
    if first == "v1" and rest.partition("/")[0] in _CHAT_V1_ROOTS:
        return True
    if first in _CHAT_ROOTS or path in _PULL_PATHS or path == CHATS_OPENAPI or is_response_path(path):
        return True
    return first == "admin" and rest.partition("/")[0] in _CHAT_ADMIN_ROOTS


def is_response_path(path: str) -> bool:
    """Return whether `path` belongs to responses or conversations."""
    first, _, rest = path[1:].partition("/")
    return (first == "v1" and rest.partition("/")[0] in _RESPONSE_V1_ROOTS) or path == RESPONSES_OPENAPI


def disabled_routes() -> APIRouter:
    """Build the routes of a gateway whose chats are switched off: each replies 404 and says why."""
    router = LazyRouter()

    async def closed() -> None:
        raise chats_disabled_error()

    for root in sorted(_RESPONSE_V1_ROOTS):
        for path in (f"/v1/{root}", f"/v1/{root}/{{rest:path}}"):
            router.add_api_route(path, closed, methods=["GET", "POST", "DELETE"], include_in_schema=False)
    return router


def chats_disabled_error() -> HttpError:
    """Build the error (404) of responses where neither the gateway nor a worker keeps any."""
    message = "responses are kept with chats, which are switched off here (chat.enabled: false)"
    return HttpError(message, status=404, code="chats_disabled")


def chats_unavailable_error() -> HttpError:
    """Build the error (503) of responses while chats, with which they are kept, cannot be opened."""
    message = (
        "responses are kept with chats, which cannot be opened: the gateway's log says why "
        "(they need radixway[chat])"
    )
    return HttpError(message, status=503, code="chats_unavailable", retry_after_s=5)
