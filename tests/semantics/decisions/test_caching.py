"""The semantic cache as a vLLM-Semantic-Router configuration wants it: for all, a category, a decision."""

import json
from contextlib import asynccontextmanager

import pytest

from radixway.core.config import ConfigError, SemanticCacheConfig
from radixway.core.config.semantic import SemanticConfig, is_cached_by_default, merge_cache_section
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

pytest.importorskip("re2")

MATH = {
    "name": "math",
    "model_scores": [{"model": "prover", "score": 1, "use_reasoning": False}],
}
LAW = {"name": "law", "model_scores": [{"model": "prover", "score": 1, "use_reasoning": False}]}
SECTION = {
    "default_model": "prover",
    "keyword_rules": [
        {"category": "math", "keywords": ["theorem"]},
        {"category": "law", "keywords": ["contract"]},
    ],
    "fusion": {"certain_at": 0.6},
}
THEOREM, SAME_THEOREM = "Explain the theorem of Pythagoras", "Explain Pythagoras' theorem"
CONTRACT = "Is an oral contract valid?"


COMPLETION = {
    "id": "chatcmpl-worker",
    "object": "chat.completion",
    "created": 1,
    "model": "prover",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "It is so."}, "finish_reason": "stop"}
    ],
}


async def answer(exchange):
    await exchange.reply(200, json.dumps(COMPLETION).encode())


@asynccontextmanager
async def caching(cache=None, **semantic):
    async with scripted_worker(answer, models=["prover"]) as worker:
        sections = {"semantic": SECTION | semantic} | ({} if cache is None else {"semantic_cache": cache})
        async with running_gateway(worker.url, **sections) as running:
            yield running


async def ask(running, text, model="auto"):
    """Whether the answer came from the cache."""
    status, answer, headers = await running.chat(model=model, messages=[{"role": "user", "content": text}])
    assert status == 200, answer
    if running.gateway.cache is not None:
        await running.gateway.cache.middleware.wait_for_writes()
    return headers.get("x-vsr-cache-hit") == "true"


async def test_the_classic_key_switches_the_cache_on():
    async with caching(semantic_cache={"enabled": True}, categories=[MATH, LAW]) as running:
        assert [await ask(running, THEOREM), await ask(running, THEOREM)] == [False, True]


async def test_a_category_that_is_not_to_be_cached_is_not():
    law = LAW | {"semantic_cache_enabled": False}
    async with caching(semantic_cache={"enabled": True}, categories=[MATH, law]) as running:
        assert [await ask(running, CONTRACT), await ask(running, CONTRACT)] == [False, False]
        assert [await ask(running, THEOREM), await ask(running, THEOREM)] == [False, True]


async def test_a_category_alone_may_be_cached():
    math = MATH | {"semantic_cache_enabled": True}
    async with caching(semantic_cache={"enabled": False}, categories=[math, LAW]) as running:
        assert [await ask(running, THEOREM), await ask(running, THEOREM)] == [False, True]
        assert [await ask(running, CONTRACT), await ask(running, CONTRACT)] == [False, False]
        explicit = [await ask(running, THEOREM, model="prover") for _ in range(2)]
        assert explicit == [False, False]  # nobody looked for its category


async def test_a_category_has_a_threshold_of_its_own():
    strict, lenient = ({"semantic_cache_similarity_threshold": least} for least in (1.0, 0.8))
    for said, hit in ((strict, False), (lenient, True)):
        async with caching(semantic_cache={"enabled": True}, categories=[MATH | said, LAW]) as running:
            assert [await ask(running, THEOREM), await ask(running, SAME_THEOREM)] == [False, hit]


async def test_the_operators_word_on_a_category_goes_before_the_files():
    cache = {"enabled": True, "category_thresholds": {"math": 1.0}}
    math = MATH | {"semantic_cache_similarity_threshold": 0.8}
    async with caching(cache, categories=[math, LAW]) as running:
        assert [await ask(running, THEOREM), await ask(running, SAME_THEOREM)] == [False, False]


async def test_a_decision_has_its_own_cache_plugin():
    plugin = {"type": "semantic-cache", "configuration": {"enabled": False}}
    decision = {
        "name": "proofs",
        "rules": {"type": "keyword", "name": "math"},
        "modelRefs": [{"model": "prover"}],
        "plugins": [plugin],
    }
    async with caching(
        semantic_cache={"enabled": True}, categories=[MATH, LAW], decisions=[decision]
    ) as running:
        assert [await ask(running, THEOREM), await ask(running, THEOREM)] == [False, False]
        assert [await ask(running, CONTRACT), await ask(running, CONTRACT)] == [False, True]


async def test_a_rule_that_blocks_goes_before_a_kept_answer():
    card = {"name": "card", "pattern": r"\d{4}-\d{4}", "action": "block"}
    text = "what is 1234-5678?"
    known = {"entries": [{"model": "auto", "question": text, "answer": "A card."}]}
    async with caching({"enabled": True}, categories=[MATH, LAW], regex_rules=[card]) as running:
        status, said, _ = await running.post("/cache/warm-up", known)
        assert (status, said["kept"]) == (200, 1), said
        status, _, headers = await running.chat(model="auto", messages=[{"role": "user", "content": text}])
    assert status == 403 and "x-vsr-cache-hit" not in headers


def section(**said):
    return SemanticConfig.model_validate(said)


def test_the_classic_section_in_ours():
    classic = {"enabled": True, "max_entries": 7, "ttl_seconds": 60, "eviction_policy": "lfu"}
    cache = merge_cache_section(
        SemanticCacheConfig(), section(semantic_cache=classic, bert_model={"threshold": 0.7})
    )
    assert (cache.enabled, cache.max_entries, cache.ttl_s, cache.eviction) == (True, 7, 60, "lfu")
    assert cache.similarity_threshold == 0.7  # bert_model's stands in


def test_what_our_own_section_says_goes_before_the_classic_one():
    own = SemanticCacheConfig(enabled=False, ttl_s=5)
    semantic = section(semantic_cache={"enabled": True, "ttl_seconds": 60})
    assert (merge_cache_section(own, semantic).enabled, merge_cache_section(own, semantic).ttl_s) == (
        False,
        5,
    )
    assert not is_cached_by_default(own, semantic)


def test_milvus_from_the_published_file(tmp_path):
    file = tmp_path / "milvus.yaml"
    file.write_text(
        "connection:\n  host: vectors\n  port: 19531\n  database: cache\n"
        "  auth: {enabled: true, username: me, password: secret}\n"
        "  tls: {enabled: true, ca_file: /ca.pem}\n"
        "collection:\n  name: answers\n  index: {type: HNSW}\nsearch: {topk: 10}\n"
    )
    classic = {"enabled": True, "backend_type": "milvus", "backend_config_path": str(file)}
    milvus = merge_cache_section(SemanticCacheConfig(), section(semantic_cache=classic)).milvus
    assert milvus.uri == "https://vectors:19531"
    assert milvus.token.get_secret_value() == "me:secret"
    assert (milvus.database, milvus.collection) == ("cache", "radixway_answers")
    assert str(milvus.ca_file) == "/ca.pem"


def test_a_mistake_in_that_file_is_told_by_path_and_line(tmp_path):
    file = tmp_path / "milvus.yaml"
    file.write_text("connection:\n  host: vectors\n  port: many\n")
    classic = {"enabled": True, "backend_type": "milvus", "backend_config_path": str(file)}
    with pytest.raises(ConfigError, match=r"milvus.yaml:3: connection.port"):
        merge_cache_section(SemanticCacheConfig(), section(semantic_cache=classic))


def test_valkey_from_a_file(tmp_path):
    file = tmp_path / "valkey.yaml"
    file.write_text("connection: {host: keys, port: 6380, database: 2, password: 'a/b'}\n")
    classic = {"enabled": True, "backend_type": "valkey", "backend_config_path": str(file)}
    valkey = merge_cache_section(SemanticCacheConfig(), section(semantic_cache=classic)).valkey
    assert valkey.url.get_secret_value() == "redis://:a%2Fb@keys:6380/2"


def test_an_endpoint_is_asked_for_the_models_that_prefer_it():
    semantic = section(
        vllm_endpoints=[
            {"name": "one", "address": "10.0.0.1", "port": 1},
            {"name": "two", "address": "10.0.0.2", "port": 1},
            {"name": "three", "address": "10.0.0.3", "port": 1},
        ],
        model_config={
            "a": {"preferred_endpoints": ["one"], "loras": [{"name": "a-law"}]},
            "b": {"preferred_endpoints": ["two"]},
            "c": {},
        },
    )
    asked = [semantic.models_at(endpoint) for endpoint in semantic.vllm_endpoints]
    assert asked == [("a", "c", "a-law"), ("b", "c"), ()]
