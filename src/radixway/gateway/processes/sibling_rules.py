"""Which requests a child answers by itself, and which take its siblings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from radixway.api.chats import is_chat_path
from radixway.core.config import Config
from radixway.core.http import Scope
from radixway.core.pipeline import ENDPOINTS
from radixway.gateway.processes.reply_merging import (
    Merge,
    merge_health,
    merge_loads,
    merge_removed,
    merge_retrievals,
    merge_sessions,
    merge_usage,
    merge_worker,
    merge_worker_lists,
)


@dataclass(frozen=True, slots=True)
class SiblingRule:
    """What is done with a request, `first` before the rest."""

    first: bool = False
    """The first child answers it."""
    then: Literal[
        "nothing",
        "share_state",
        "reload_rules",
        "repeat",
        "ask_others",
        "find",
        "ask_newest",
        "concatenate",
        "interleave",
    ] = "nothing"
    """After this child's own answer, if that is well: report the state of workers to siblings; have them read
    their rules again; repeat the call at each; ask each and merge the answers. `find`: after 404, ask one
    after the other. `ask_newest`: ask each, and give the answer of the request that began last. The last two:
    streams of lines, whole or as the lines come."""
    merge: Merge | None = None
    """Makes one of JSON answers; None: this child's own is given."""


_ONE_WORKER = "/workers/"
_KEPT_BY_WORKERS = ("/v1/files/", "/v1/batches/", "/v1/tokenize", "/v1/detokenize")
"""Calls for one worker: the first child remembers which has a file."""
_ONCE = SiblingRule(first=True)
_WORKERS_CHANGE = SiblingRule(first=True, then="share_state")
_WORKER_SHOWN = SiblingRule(first=True, then="ask_others", merge=merge_worker)
_FIND = SiblingRule(then="find")
_NEWEST = SiblingRule(then="ask_newest")
_REPEAT = SiblingRule(then="repeat", merge=merge_removed)
_UPDATES = ("disk", "tensor", "distributed", "ipc")

_RULES: dict[tuple[str, str], SiblingRule] = {
    ("GET", "/plan"): _ONCE,
    ("GET", "/config/system-prompts"): _ONCE,
    ("PUT", "/config/system-prompts"): SiblingRule(first=True, then="repeat"),
    ("PUT", "/config/semantic/rules"): SiblingRule(first=True, then="reload_rules"),
    ("POST", "/config/semantic/rollback"): SiblingRule(first=True, then="reload_rules"),
    ("POST", "/config/semantic/reload"): SiblingRule(first=True, then="repeat"),
    ("POST", "/add_worker"): _WORKERS_CHANGE,
    ("POST", "/remove_worker"): _WORKERS_CHANGE,
    ("POST", "/drain_worker"): _WORKERS_CHANGE,
    ("POST", "/resume_worker"): _WORKERS_CHANGE,
    ("POST", "/workers"): _WORKERS_CHANGE,
    ("DELETE", "/workers"): _WORKERS_CHANGE,
    ("POST", "/expect_weight_version"): _WORKERS_CHANGE,
    ("POST", "/update_weight_version"): _WORKERS_CHANGE,
    **{("POST", f"/update_weights_from_{source}"): _WORKERS_CHANGE for source in _UPDATES},
    ("POST", "/abort_request"): SiblingRule(then="repeat"),
    ("POST", "/feedback"): _FIND,
    ("POST", "/cache/report"): _FIND,
    ("GET", "/health"): SiblingRule(then="ask_others", merge=merge_health),
    ("GET", "/metrics"): SiblingRule(then="ask_others", merge=merge_loads),
    ("GET", "/workers"): SiblingRule(first=True, then="ask_others", merge=merge_worker_lists),
    ("GET", "/list_workers"): SiblingRule(then="ask_others", merge=merge_worker_lists),
    ("GET", "/samples"): SiblingRule(then="concatenate"),
    ("GET", "/traffic"): SiblingRule(then="interleave"),
    ("GET", "/usage"): SiblingRule(then="ask_others", merge=merge_usage),
    ("GET", "/sessions"): SiblingRule(then="ask_others", merge=merge_sessions),
    ("POST", "/retrieve_from_text"): SiblingRule(then="ask_others", merge=merge_retrievals),
    ("POST", "/retrieve_from_messages_template"): SiblingRule(then="ask_others", merge=merge_retrievals),
}
_MEMORY_CACHE_RULES: dict[tuple[str, str], SiblingRule] = {
    ("POST", "/cache/purge"): _REPEAT,
    ("POST", "/cache/flush"): _REPEAT,
    ("POST", "/cache/warm-up"): SiblingRule(then="repeat"),
    ("POST", "/api/v1/response-cache/invalidate"): _REPEAT,
    ("POST", "/api/v1/response-cache/flush"): _REPEAT,
}
"""Where each child keeps answers in its own memory."""
_INFERENCE = frozenset(ENDPOINTS.served_directly())


def build_sibling_rules(config: Config) -> Callable[[Scope], SiblingRule | None]:
    """Return what finds the rule of a request (or WebSocket); None: any child answers it by itself."""
    rules = dict(_RULES)
    if config.semantic_cache.backend == "memory":
        rules |= _MEMORY_CACHE_RULES
    if config.tenants.usage.persist:  # each reads the file after it has written to it, so the last knows all
        rules["GET", "/usage"] = SiblingRule(then="ask_others", merge=lambda replies: replies[-1])
    chats_once = config.chat.redis is None

    def find_rule(scope: Scope) -> SiblingRule | None:
        path: str = scope["path"]
        if path in _INFERENCE:
            return None
        if path == "/console" or path.startswith(("/console/", "/simulate")):
            return _ONCE
        if chats_once and is_chat_path(path):
            return _ONCE
        if path.startswith(_KEPT_BY_WORKERS):
            return _ONCE
        if path.startswith(_ONE_WORKER):
            return _WORKER_SHOWN if scope.get("method") == "GET" else _WORKERS_CHANGE
        if path.startswith("/explain/"):
            return _NEWEST
        return rules.get((scope.get("method", ""), path))

    return find_rule
