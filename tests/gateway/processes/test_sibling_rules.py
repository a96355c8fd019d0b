"""Every call that changes something is either done in all processes, or is known to need only one."""

from __future__ import annotations

import pytest

from radixway.core.config import Config, load_config
from radixway.gateway.app import Gateway
from radixway.gateway.processes.sibling_rules import build_sibling_rules

BY_WORKERS = {
    "/tokenize",
    "/detokenize",
    "/concate_and_append_request",
    "/pause_generation",
    "/continue_generation",
    "/release_memory_occupation",
    "/resume_memory_occupation",
    "/init_weights_update_group",
    "/destroy_weights_update_group",
    "/flush_cache",
}
"""They change workers, which are everybody's; any child passes them on, once."""
OWNED = {
    "/sessions",
    "/finish_session",
    "/select_and_reserve",
    "/prefill_complete",
    "/output_block",
    "/free",
}
IN_ONE_STORE = ("/key", "/team", "/user")
"""Beginnings of what every child reads from one database, again after each change (`access.store`)."""
BY_COMPONENTS = {"/admin/erase"}
"""The siblings are one of the components in which a subject is erased."""
CHANGE_NOTHING = {
    "/select",
    "/rehearse",
    "/cache/compare",
    "/config/semantic/check",
    "/config/semantic/try",
    "/api/v1/classify/intent",
    "/api/v1/classify/pii",
    "/api/v1/classify/security",
    "/api/v1/classify/combined",
    "/api/v1/classify/batch",
    "/api/v1/embeddings",
    "/api/v1/similarity",
    "/api/v1/similarity/batch",
}


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Config:
    rules = tmp_path_factory.mktemp("rules") / "rules.yaml"
    rules.write_text("default_model: m\n")
    return load_config(
        None,
        {"semantic": {"config": str(rules)}, "semantic_cache": {"enabled": True}, "keys": {"enabled": True}},
    )


def test_no_call_is_forgotten(config):
    find_rule = build_sibling_rules(config)
    known = BY_WORKERS | OWNED | BY_COMPONENTS | CHANGE_NOTHING
    seen = set()
    for route in Gateway(config)._fastapi.router.routes:
        for method in set(getattr(route, "methods", None) or ()) - {"GET", "HEAD"}:
            path = route.path
            seen.add(path)
            if path.startswith(("/sessions/", *IN_ONE_STORE)) or path in known:
                assert find_rule({"type": "http", "method": method, "path": path}) is None, path
                continue
            rule = find_rule({"type": "http", "method": method, "path": path})
            assert rule is not None and (rule.first or rule.then != "nothing"), (method, path)
    assert known <= seen


def test_hot_paths_are_each_childs_own(config):
    find_rule = build_sibling_rules(config)
    for path in ("/v1/chat/completions", "/generate", "/v1/embeddings"):
        assert find_rule({"type": "http", "method": "POST", "path": path}) is None


@pytest.mark.parametrize("path", ["/chats/stream", "/v1/responses", "/console/login", "/simulate/7", "/work"])
def test_what_there_is_once_is_the_first_childs(config, path):
    rule = build_sibling_rules(config)({"type": "websocket", "path": path})
    assert rule is not None and rule.first


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_one_worker_is_the_first_childs_and_a_change_of_it_is_told_to_all(config, method):
    rule = build_sibling_rules(config)({"type": "http", "method": method, "path": "/workers/an-id"})
    assert rule is not None and rule.first
    assert rule.then == ("ask_others" if method == "GET" else "share_state")


@pytest.mark.parametrize("path", ["/v1/files/file-1/content", "/v1/batches/batch_1/cancel"])
def test_the_first_child_knows_which_worker_has_a_file(config, path):
    rule = build_sibling_rules(config)({"type": "http", "method": "GET", "path": path})
    assert rule is not None and rule.first
    for made in ("/v1/files", "/v1/batches", "/v1/messages", "/v1/audio/transcriptions", "/pooling"):
        assert build_sibling_rules(config)({"type": "http", "method": "POST", "path": made}) is None


def test_chats_are_everybodys_where_valkey_carries_their_tokens(config):
    shared = load_config(None, {"chat": {"redis": "redis://127.0.0.1/0"}})
    assert build_sibling_rules(shared)({"type": "http", "method": "GET", "path": "/chats"}) is None
