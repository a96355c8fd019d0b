"""Health, models, metrics and the operator's calls."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

import radixway
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_health_and_readiness(served: Served) -> None:
    assert (await served.http.get("/health")).status_code == 200
    assert (await served.http.head("/health")).status_code == 200
    assert (await served.http.get("/ready")).status_code == 200
    assert (await served.http.get("/health_generate")).status_code == 200
    assert served.engine.submitted[0][1].max_tokens == 1
    served.app.service.draining = True
    try:
        draining = await served.http.get("/ready")
        assert draining.status_code == 503 and draining.json()["error"]["code"] == "draining"
        assert (await served.http.get("/health")).status_code == 200
    finally:
        served.app.service.draining = False


async def test_probes_of_vllm_and_sglang_are_answered(served: Served) -> None:
    assert (
        (await served.http.get("/ping")).status_code == (await served.http.post("/ping")).status_code == 200
    )
    assert (await served.http.get("/version")).json() == {"version": radixway.__version__}
    assert (await served.http.get("/is_sleeping")).json() == {"is_sleeping": False}
    assert (await served.http.post("/reset_prefix_cache")).status_code == 200
    assert served.engine.flushes == 1


async def test_load_counts_what_runs_in_both_engines_forms(served: Served) -> None:
    served.engine.hold_after = 1
    asking = asyncio.create_task(served.post("/generate", {"text": ["hello", "there"]}))
    await served.engine.holding.wait()
    assert (await served.http.get("/load")).json() == {"server_load": 2}
    (load,) = (await served.http.get("/get_load")).json()
    assert load == {"dp_rank": 0, "num_reqs": 2, "num_waiting_reqs": 0, "num_tokens": 200}
    await served.post("/abort_request", {"abort_all": True})
    await asking
    assert (await served.http.get("/load")).json() == {"server_load": 0}


async def test_models_say_name_and_context(served: Served) -> None:
    page = await served.openai.models.list()
    assert [card.id for card in page.data] == ["radixway-guide"]
    card = await served.openai.models.retrieve("radixway-guide")
    assert card.object == "model" and card.model_extra == {
        "root": "radixway-guide",
        "parent": None,
        "max_model_len": 256,
    }
    assert (await served.openai.models.retrieve("default")).id == "radixway-guide"
    missing = await served.http.get("/v1/models/some/other")
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "model_not_found"


async def test_sglangs_model_and_server_info(served: Served) -> None:
    for path in ("/get_model_info", "/model_info"):
        info = (await served.http.get(path)).json()
        assert info["model_path"] == info["tokenizer_path"] == served.engine.model_info.path
        assert info["is_generation"] is True and info["weight_version"] == "v7"
    for path in ("/server_info", "/get_server_info"):
        info = (await served.http.get(path)).json()
        assert info["max_total_num_tokens"] == 1000 and info["context_length"] == 256
        assert info["page_size"] == served.engine.config.page_size
        assert info["max_running_requests"] == served.engine.config.max_running
        assert (info["engine"], info["version"]) == ("radixway", radixway.__version__)
        assert (info["running"], info["waiting"], info["kv_usage"]) == (0, 0, 0.0)


async def test_metrics_are_prometheus_text(served: Served) -> None:
    async def read() -> dict[str, float]:
        response = await served.http.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain")
        families = text_string_to_metric_families(response.text)
        return {sample.name: sample.value for family in families for sample in family.samples}

    before = await read()
    await served.chat(n=2)
    after = await read()

    def grown(name: str) -> float:
        return after[f"radixway_engine_{name}"] - before.get(f"radixway_engine_{name}", 0)

    assert grown("requests_total") == 2
    assert grown("time_to_first_token_seconds_count") == 2
    assert grown("e2e_request_latency_seconds_count") == 1
    assert after["radixway_engine_requests_running"] == after["radixway_engine_requests_waiting"] == 0
    assert after["radixway_engine_kv_tokens"] == 1000 and after["radixway_engine_kv_usage_ratio"] == 0
    for name in ("prompt_tokens_total", "cached_prompt_tokens_total", "generation_tokens_total"):
        assert f"radixway_engine_{name}" in after


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_cache_can_be_flushed_while_nothing_runs(served: Served, method: str) -> None:
    assert (await served.http.request(method, "/flush_cache")).status_code == 200
    assert served.engine.flushes == 1
    served.engine.hold_after = 1
    asking = asyncio.create_task(served.chat())
    await served.engine.holding.wait()
    refused = await served.http.request(method, "/flush_cache")
    assert refused.status_code == 400 and refused.json()["error"]["code"] == "cache_in_use"
    await served.post("/abort_request", {"abort_all": True})
    assert (await asking).json()["choices"][0]["finish_reason"] == "abort"


async def test_a_chat_is_aborted_by_the_request_id_it_came_with(served: Served) -> None:
    served.engine.hold_after = 1
    body = {"messages": [{"role": "user", "content": "hi"}], "n": 3}
    asking = asyncio.create_task(served.post("/v1/chat/completions", body, **{"x-request-id": "turn-5"}))
    await served.engine.holding.wait()
    assert (await served.post("/abort_request", {"rid": "other"})).json()["aborted"] == 0
    assert (await served.post("/abort_request", {"rid": "turn-5"})).json()["aborted"] == 3
    choices = (await asking).json()["choices"]
    assert [choice["finish_reason"] for choice in choices] == ["abort"] * 3


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "n": 2}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "n": 2, "rid": ["r-7"]}),
        ("/v1/completions", {"prompt": ["hello", "there"]}),
        ("/v1/completions", {"prompt": "hello", "n": 2, "rid": ["r-7"]}),
        ("/generate", {"text": ["hello", "there"]}),
    ],
)
async def test_every_answer_is_aborted_by_the_rid_of_its_body(served: Served, path: str, body: dict) -> None:
    served.engine.hold_after = 1
    asking = asyncio.create_task(served.post(path, {"rid": "r-7"} | body))
    await served.engine.holding.wait()
    assert (await served.post("/abort_request", {"rid": "r-7"})).json()["aborted"] == 2
    assert (await asking).status_code == 200
    assert not served.engine.running
    assert (await served.post("/abort_request", {"rid": "r-7"})).json()["aborted"] == 0


async def test_each_prompt_of_a_completion_may_have_a_rid_of_its_own(served: Served) -> None:
    served.engine.hold_after = 1
    asking = asyncio.create_task(
        served.post("/v1/completions", {"prompt": ["hello", "there"], "rid": ["one", "two"]})
    )
    await served.engine.holding.wait()
    for rid in ("one", "two"):
        assert (await served.post("/abort_request", {"rid": rid})).json()["aborted"] == 1
    reasons = [choice["finish_reason"] for choice in (await asking).json()["choices"]]
    assert reasons == ["abort", "abort"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "rid": ["a", "b"]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "rid": 5}),
        ("/v1/completions", {"prompt": "hi", "rid": []}),
    ],
)
async def test_a_rid_that_fits_no_prompt_is_refused(served: Served, path: str, body: dict) -> None:
    response = await served.post(path, body)
    assert response.status_code == 400 and response.json()["error"]["param"] == "rid"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize"])
async def test_default_is_the_model_that_is_served(served: Served, path: str) -> None:
    prompt = {"messages": [{"role": "user", "content": "hi"}]} if "chat" in path else {"prompt": "hi"}
    response = await served.post(path, prompt | {"model": "default"})
    assert response.status_code == 200, response.text
    assert response.json().get("model", "radixway-guide") == "radixway-guide"
    assert (await served.post(path, prompt | {"model": "other"})).status_code == 404


async def test_an_abort_without_an_id_is_refused(served: Served) -> None:
    response = await served.post("/abort_request", {})
    assert response.status_code == 400 and response.json()["error"]["param"] == "rid"


async def test_what_is_not_there_is_a_404_and_the_wrong_method_a_405(served: Served) -> None:
    missing = await served.http.get("/v1/nothing")
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "not_found"
    wrong = await served.http.get("/v1/chat/completions")
    assert wrong.status_code == 405 and "POST" in wrong.json()["error"]["message"]


async def test_health_answers_while_a_long_text_is_tokenized(served: Served) -> None:
    """Tokenizing 150 KB takes long enough for other requests to come and go meanwhile."""
    text = "Ein langer Text, 很长的文本. " * 5000
    tokenizing = asyncio.create_task(served.http.post("/tokenize", content=_json_text(text)))
    answered = 0
    while not tokenizing.done():
        assert (await served.http.get("/health")).status_code == 200
        answered += 1
    assert (await tokenizing).status_code == 200
    assert answered > 1


async def test_what_runs_is_counted_until_it_is_aborted(served: Served) -> None:
    async def load() -> dict:
        response = await served.http.get("/v1/loads?include=core,disagg,queues")
        assert response.status_code == 200, response.text
        (only,) = response.json()["loads"]
        return only

    assert (await load())["num_running_reqs"] == 0
    served.engine.hold_after = 1
    asking = asyncio.create_task(served.chat(n=2))
    await served.engine.holding.wait()
    busy = await load()
    assert (busy["dp_rank"], busy["num_running_reqs"], busy["num_waiting_reqs"]) == (0, 2, 0)
    assert (busy["num_used_tokens"], busy["max_total_num_tokens"]) == (200, 1000)
    assert busy["token_usage"] == pytest.approx(0.2)
    assert busy["max_running_requests"] == served.engine.config.max_running
    assert busy["disaggregation"] == {
        "mode": "null",
        "prefill_inflight_queue_reqs": 0,
        "decode_transfer_queue_reqs": 0,
    }
    assert busy["queues"] == {"waiting": 0, "grammar": 0, "paused": 0, "retracted": 0}
    await served.post("/abort_request", {"abort_all": True})
    await asking
    assert (await load())["num_running_reqs"] == 0


@pytest.mark.parametrize(
    ("query", "sections"),
    [
        ("", {"disaggregation", "queues"}),
        ("?include=all", {"disaggregation", "queues"}),
        ("?include=core", set()),
        ("?include=core,%20queues", {"queues"}),
        ("?include=memory,spec,lora&format=json&dp_rank=0", set()),
    ],
)
async def test_sections_are_those_that_are_asked_for(served: Served, query: str, sections: set[str]) -> None:
    told = (await served.http.get(f"/v1/loads{query}")).json()
    assert (told["version"], told["dp_rank_count"]) == (radixway.__version__, 1)
    (load,) = told["loads"]
    assert load.keys() & {"disaggregation", "queues", "memory", "speculative", "lora"} == sections
    assert {"num_running_reqs", "num_waiting_reqs", "num_used_tokens"} <= load.keys()


async def test_there_is_no_other_rank(served: Served) -> None:
    assert (await served.http.get("/v1/loads?dp_rank=1")).json()["loads"] == []


@pytest.mark.parametrize("query", ["include=everything", "format=prometheus", "dp_rank=x"])
async def test_what_cannot_be_asked_names_its_field(served: Served, query: str) -> None:
    response = await served.http.get(f"/v1/loads?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == query.partition("=")[0]


def _json_text(text: str) -> bytes:
    return b'{"prompt": "' + text.encode() + b'"}'


async def test_version_and_load_are_told_as_vllm_does(served: Served) -> None:
    assert (await served.http.get("/version")).json() == {"version": radixway.__version__}
    assert (await served.http.get("/load")).json() == {"server_load": 0}
    served.engine.hold_after = 1
    asking = asyncio.create_task(served.post("/generate", {"text": "hello", "rid": "r"}))
    await served.engine.holding.wait()
    assert (await served.http.get("/load")).json() == {"server_load": 1}
    await served.post("/abort_request", {"rid": "r"})
    await asking
