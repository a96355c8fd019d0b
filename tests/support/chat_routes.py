"""Who may use which route of the chats: one row each, for `api/chats/test_auth_dependencies.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Opens(Enum):
    """Whom a route lets in."""

    TO_ALL = "all"
    TO_USERS = "users"
    """Each to what is theirs."""
    TO_OWNER = "owner"
    """It is about one thing, which belongs to one user; for all others there is no such thing."""
    TO_CLIENTS = "clients"
    """As to users; whoever is none is told in OpenAI's way: 401."""
    TO_ONE_CLIENT = "one client"
    """As to its owner, and likewise."""
    TO_ADMINS = "administrators"
    BY_ITS_OWN = "its own"
    """What it lets in by is of its own kind, and tested where that is."""


@dataclass(frozen=True)
class Row:
    """What a route is asked with. What stands in braces is filled in as in the path."""

    opens: Opens
    body: Any = None
    query: str = ""
    once: bool = False
    """What it is about is not there a second time."""


def _asked(**more: Any) -> Row:
    return Row(Opens.TO_OWNER, {"model": "m", "reply": "later"} | more)


ROUTES: dict[tuple[str, str], Row] = {
    ("GET", "/openapi/chats.json"): Row(Opens.TO_ALL),
    ("GET", "/auth/check"): Row(Opens.TO_USERS),
    ("GET", "/auth/providers"): Row(Opens.TO_ALL),
    ("GET", "/auth/refresh"): Row(Opens.BY_ITS_OWN),
    ("GET", "/auth/login/debug"): Row(Opens.TO_ALL, query="?username=somebody"),
    ("GET", "/auth/callback/debug"): Row(Opens.TO_ALL, query="?code=somebody"),
    ("GET", "/auth/login/{provider}"): Row(Opens.BY_ITS_OWN),
    ("GET", "/auth/callback/{provider}"): Row(Opens.BY_ITS_OWN),
    ("POST", "/auth/operator"): Row(Opens.BY_ITS_OWN),
    ("POST", "/auth/trusted"): Row(Opens.BY_ITS_OWN),
    ("DELETE", "/account/"): Row(Opens.TO_USERS),
    ("DELETE", "/account"): Row(Opens.TO_ALL),
    ("GET", "/v1/account/export"): Row(Opens.TO_USERS),
    ("DELETE", "/v1/account"): Row(Opens.TO_USERS),
    ("GET", "/admin/users/{user_id}/export"): Row(Opens.TO_ADMINS),
    ("GET", "/configs/model_configs"): Row(Opens.TO_ALL),
    ("GET", "/configs/builtin_plugins"): Row(Opens.TO_ALL),
    ("POST", "/configs/plugin_config"): Row(
        Opens.TO_ALL, {"url": "{gateway}/plugins/calculator/ai-plugin.json"}
    ),
    ("GET", "/plugins/{name}/ai-plugin.json"): Row(Opens.TO_ALL),
    ("GET", "/plugins/{name}/icon.png"): Row(Opens.TO_ALL),
    ("GET", "/plugins/{name}/openapi.json"): Row(Opens.TO_ALL),
    ("GET", "/plugins/{name}/{operation}/"): Row(Opens.TO_ALL, query="?expression=1"),
    ("DELETE", "/admin/refresh_tokens/{user_id}"): Row(Opens.TO_ADMINS),
    ("DELETE", "/admin/users/{user_id}"): Row(Opens.TO_ADMINS),
    ("PUT", "/admin/workers"): Row(Opens.TO_ADMINS, {"name": "w"}),
    ("GET", "/admin/workers"): Row(Opens.TO_ADMINS),
    ("DELETE", "/admin/workers/{worker_id}"): Row(Opens.TO_ADMINS),
    ("GET", "/workers/sessions"): Row(Opens.TO_ADMINS),
    ("WS", "/workers/work"): Row(Opens.BY_ITS_OWN),
    ("WS", "/work"): Row(Opens.BY_ITS_OWN),
    ("GET", "/chats"): Row(Opens.TO_USERS),
    ("POST", "/chats"): Row(Opens.TO_USERS, {}),
    ("PUT", "/chats/hide_all"): Row(Opens.TO_USERS),
    ("GET", "/chats/{chat_id}"): Row(Opens.TO_OWNER),
    ("PUT", "/chats/{chat_id}"): Row(Opens.TO_OWNER, {"title": "x"}),
    ("DELETE", "/chats/{chat_id}"): Row(Opens.TO_OWNER),
    ("POST", "/chats/{chat_id}/prompter_message"): Row(
        Opens.TO_OWNER, {"parent_id": "{answer_id}", "content": "x"}
    ),
    ("POST", "/chats/{chat_id}/assistant_message"): Row(
        Opens.TO_OWNER, {"parent_id": "{message_id}", "model_config_name": "m"}
    ),
    ("GET", "/chats/{chat_id}/messages/{message_id}"): Row(Opens.TO_OWNER),
    ("GET", "/chats/{chat_id}/messages/{message_id}/events"): Row(Opens.TO_OWNER),
    ("POST", "/chats/{chat_id}/messages/{message_id}/votes"): Row(Opens.TO_OWNER, {"score": 1}),
    ("POST", "/chats/{chat_id}/messages/{message_id}/reports"): Row(
        Opens.TO_OWNER, {"report_type": "spam", "reason": ""}
    ),
    ("POST", "/chats/{chat_id}/messages/{message_id}/message_evals"): Row(
        Opens.TO_OWNER, {"inferior_message_ids": []}
    ),
    ("GET", "/v1/chats"): Row(Opens.TO_USERS),
    ("POST", "/v1/chats"): Row(Opens.TO_USERS, {}),
    ("GET", "/v1/chats/search"): Row(Opens.TO_USERS, query="?q=x"),
    ("GET", "/v1/chats/tags"): Row(Opens.TO_USERS),
    ("GET", "/v1/chats/export"): Row(Opens.TO_USERS),
    ("POST", "/v1/chats/import"): Row(Opens.TO_USERS),
    ("GET", "/v1/chats/shared/{token}"): Row(Opens.TO_ALL),
    ("GET", "/v1/chats/{chat_id}"): Row(Opens.TO_OWNER),
    ("PATCH", "/v1/chats/{chat_id}"): Row(Opens.TO_OWNER, {"title": "x"}),
    ("DELETE", "/v1/chats/{chat_id}"): Row(Opens.TO_OWNER),
    ("GET", "/v1/chats/{chat_id}/thread"): Row(Opens.TO_OWNER),
    ("GET", "/v1/chats/{chat_id}/export"): Row(Opens.TO_OWNER),
    ("POST", "/v1/chats/{chat_id}/shares"): Row(Opens.TO_OWNER, {"message_id": "{message_id}"}),
    ("GET", "/v1/chats/{chat_id}/shares"): Row(Opens.TO_OWNER),
    ("DELETE", "/v1/chats/{chat_id}/shares/{share_id}"): Row(Opens.TO_OWNER),
    ("POST", "/v1/chats/{chat_id}/messages"): _asked(content="x", while_busy="enqueue"),
    ("GET", "/v1/chats/{chat_id}/messages/{message_id}"): Row(Opens.TO_OWNER),
    ("GET", "/v1/chats/{chat_id}/messages/{message_id}/events"): Row(Opens.TO_OWNER),
    ("POST", "/v1/chats/{chat_id}/messages/{message_id}/stop"): Row(Opens.TO_OWNER),
    ("POST", "/v1/chats/{chat_id}/messages/{message_id}/regenerate"): _asked(),
    ("POST", "/v1/chats/{chat_id}/messages/{message_id}/edit"): _asked(content="x"),
    ("POST", "/v1/chats/{chat_id}/messages/{message_id}/continue"): _asked(),
    ("GET", "/v1/webhooks"): Row(Opens.TO_USERS),
    ("POST", "/v1/webhooks"): Row(Opens.TO_USERS, {"url": "http://127.0.0.1:9/"}),
    ("GET", "/v1/webhooks/{webhook_id}"): Row(Opens.TO_OWNER),
    ("PATCH", "/v1/webhooks/{webhook_id}"): Row(Opens.TO_OWNER, {"enabled": False}),
    ("DELETE", "/v1/webhooks/{webhook_id}"): Row(Opens.TO_OWNER),
    ("GET", "/v1/webhooks/{webhook_id}/deliveries"): Row(Opens.TO_OWNER),
    ("POST", "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry"): Row(Opens.TO_OWNER, once=True),
    ("POST", "/v1/webhooks/{webhook_id}/rotate"): Row(Opens.TO_OWNER),
    ("POST", "/v1/webhooks/{webhook_id}/test"): Row(Opens.TO_OWNER),
}

RESPONSES: dict[tuple[str, str], Row] = {
    ("POST", "/v1/responses"): Row(Opens.TO_CLIENTS, {"model": "m", "input": "x", "background": True}),
    ("POST", "/v1/responses/input_tokens"): Row(
        Opens.TO_CLIENTS, {"model": "m", "input": "x", "previous_response_id": "resp_none"}
    ),
    ("GET", "/v1/responses/{response_id}"): Row(Opens.TO_ONE_CLIENT),
    ("POST", "/v1/responses/{response_id}/cancel"): Row(Opens.TO_ONE_CLIENT),
    ("DELETE", "/v1/responses/{response_id}"): Row(Opens.TO_ONE_CLIENT),
    ("GET", "/v1/responses/{response_id}/input_items"): Row(Opens.TO_ONE_CLIENT),
    ("POST", "/v1/conversations"): Row(Opens.TO_CLIENTS, {}),
    ("GET", "/v1/conversations/{conversation_id}"): Row(Opens.TO_ONE_CLIENT),
    ("POST", "/v1/conversations/{conversation_id}"): Row(Opens.TO_ONE_CLIENT, {"metadata": {"a": "b"}}),
    ("GET", "/v1/conversations/{conversation_id}/items"): Row(Opens.TO_ONE_CLIENT),
    ("POST", "/v1/conversations/{conversation_id}/items"): Row(
        Opens.TO_ONE_CLIENT, {"items": [{"role": "user", "content": "x"}]}
    ),
    ("GET", "/v1/conversations/{conversation_id}/items/{item_id}"): Row(Opens.TO_ONE_CLIENT),
    ("DELETE", "/v1/conversations/{conversation_id}/items/{item_id}"): Row(Opens.TO_ONE_CLIENT),
    ("DELETE", "/v1/conversations/{conversation_id}"): Row(Opens.TO_ONE_CLIENT),
}
"""Of the application beside it."""
