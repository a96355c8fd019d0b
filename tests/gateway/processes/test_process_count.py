"""How many processes `auto` is."""

from __future__ import annotations

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.gateway.processes.process_count import check_processes, count_processes


def test_the_number_is_as_configured():
    assert count_processes(load_config(None, {})) == 1
    assert count_processes(load_config(None, {"gateway": {"processes": "3"}})) == 3
    assert count_processes(load_config(None, {"gateway": {"processes": "auto"}})) >= 1


@pytest.mark.parametrize("wrong", ["0", "some", 65, -1])
def test_what_is_no_number_of_processes_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"gateway\.processes"):
        load_config(None, {"gateway": {"processes": wrong}})


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        (
            {"scale": {"sync": {"bind": "tcp://127.0.0.1:5560", "peers": ["tcp://10.0.0.2:5560"]}}},
            r"scale\.sync\.bind",
        ),
        ({"ext_proc": {"enabled": True, "port": 0}}, r"ext_proc\.port"),
        (
            {"semantic_cache": {"backend": "milvus", "milvus": {"uri": "cache.db"}}},
            r"semantic_cache\.milvus\.uri",
        ),
        (
            {"workers": [{"url": "http://127.0.0.1:1", "kv_events": {"endpoint": "tcp://*:5557"}}]},
            r"workers\.0\.kv_events\.endpoint",
        ),
    ],
)
def test_what_only_one_process_can_have_is_refused_of_several(tree, key):
    check_processes(load_config(None, tree))
    with pytest.raises(ConfigError, match=key):
        check_processes(load_config(None, tree | {"gateway": {"processes": 2}}))


@pytest.mark.parametrize(
    "tree",
    [
        {"ext_proc": {"enabled": True}},
        {"semantic_cache": {"backend": "milvus", "milvus": {"uri": "http://127.0.0.1:19530"}}},
        {
            "scale": {
                "sync": {"redis": "redis://127.0.0.1:6379/0"},
                "gateways": {
                    "self_url": "http://10.0.0.1:30000",
                    "all": ["http://10.0.0.1:30000", "http://10.0.0.2:30000"],
                    "key": "a key of sixteen characters",
                },
            }
        },
    ],
)
def test_what_several_processes_can_share_is_accepted(tree):
    check_processes(load_config(None, tree | {"gateway": {"processes": 2}}))
