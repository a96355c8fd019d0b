"""A gateway that decides, before workers on real sockets: what reaches them, and what the client gets."""

import asyncio
import json
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from radixway.semantics.encoders import EncoderService
from radixway.semantics.signals.keyword import KeywordDetector
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

OCTOBER = Path(__file__).parents[2] / "data" / "semantic" / "october_2025.yaml"
SECTION = {
    "default_model": "general",
    "model_config": {
        "prover": {"reasoning_family": "deepseek"},
        "adviser": {"reasoning_family": "qwen3"},
        "thinker": {"reasoning_family": "gpt-oss"},
    },
    "keyword_rules": [
        {"category": "math", "keywords": ["theorem", "证明", "定理"]},
        {"category": "business", "keywords": ["revenue"]},
        {"category": "physics", "keywords": ["quark"]},
    ],
    "fusion": {"certain_at": 0.6},
    "categories": [
        {
            "name": "math",
            "system_prompt": {"en": "You prove.", "zh": "你是数学专家。"},
            "model_scores": [
                {"model": "prover", "score": 1.0, "use_reasoning": True},
                {"model": "adviser", "score": 0.5, "use_reasoning": False},
            ],
        },
        {
            "name": "business",
            "system_prompt": "You advise.",
            "system_prompt_mode": "insert",
            "model_scores": [{"model": "adviser", "score": 0.9, "use_reasoning": False}],
        },
        {
            "name": "physics",
            "model_scores": [
                {"model": "thinker", "score": 1, "use_reasoning": True, "reasoning_effort": "high"}
            ],
        },
    ],
    "regex_rules": [{"name": "card", "pattern": "\\b\\d{4}(-\\d{4}){3}\\b", "action": "block"}],
}
MODELS = ["general", "prover", "adviser", "thinker"]
HEADERS = [
    "x-vsr-selected-category",
    "x-vsr-selected-reasoning",
    "x-vsr-selected-model",
    "x-vsr-injected-system-prompt",
]


@asynccontextmanager
async def deciding(models=MODELS, section=SECTION, **worker):
    async with scripted_worker(models=models, **worker) as one:
        async with running_gateway(one.url, semantic=section) as running:
            yield running, one


async def ask(running, text, **fields):
    status, body, headers = await running.chat(
        model=fields.pop("model", "auto"), messages=[{"role": "user", "content": text}], **fields
    )
    return status, body, {name: headers.get(name) for name in HEADERS}


async def test_a_proof_goes_to_the_best_model_for_maths_thinking_under_the_chinese_prompt():
    async with deciding() as (running, worker):
        status, _, headers = await ask(running, "证明费马大定理")
        sent = worker.requests[-1].json()
    assert status == 200
    assert sent == {
        "model": "prover",
        "messages": [
            {"role": "system", "content": "你是数学专家。"},
            {"role": "user", "content": "证明费马大定理"},
        ],
        "chat_template_kwargs": {"thinking": True},
    }
    assert list(headers.values()) == ["math", "on", "prover", "true"]


async def test_off_is_said_explicitly_and_the_clients_other_kwargs_stay():
    async with deciding() as (running, worker):
        await ask(running, "Our revenue fell", chat_template_kwargs={"custom": 7}, model="MoM")
        sent = worker.requests[-1].json()
    assert sent["model"] == "adviser"
    assert sent["chat_template_kwargs"] == {"custom": 7, "enable_thinking": False}


async def test_an_effort_is_set_where_the_family_has_efforts():
    async with deciding() as (running, worker):
        await ask(running, "Explain what a quark is.", reasoning_effort="minimal")
        assert worker.requests[-1].json()["reasoning_effort"] == "high"


async def test_nothing_else_of_the_body_is_lost_or_rewritten():
    raw = (
        b'{"model": "auto", "top_k": 1e0, "odd": {"a":  [1.10]}, "stream": false, "tool_choice": "auto",'
        b' "tools": [{"type": "function", "function": {"name": "f"}}],'
        b' "messages": [{"role": "system", "content": "Be brief."},'
        b' {"role": "user", "content": "revenue",  "name": "\\u4eba"}]}'
    )
    async with deciding() as (running, worker):
        await running.post("/v1/chat/completions", raw)
        sent = worker.requests[-1].body
    body = json.loads(sent)
    assert b'{"a":  [1.10]}' in sent and b'"top_k":1e0' in sent
    assert b'{"role": "user", "content": "revenue",  "name": "\\u4eba"}' in sent
    assert body["messages"][0] == {"role": "system", "content": "You advise.\n\nBe brief."}
    assert body["stream"] is False and body["tools"][0]["function"]["name"] == "f"


async def test_the_prompt_is_never_there_twice():
    async with deciding() as (running, worker):
        messages = [
            {"role": "system", "content": "You advise.\n\nBe brief."},
            {"role": "user", "content": "revenue?"},
        ]
        _, _, headers = await running.chat(model="auto", messages=messages)
        assert worker.requests[-1].json()["messages"] == messages
    assert headers["x-vsr-injected-system-prompt"] == "false"


async def test_an_explicit_model_is_left_alone():
    async with deciding() as (running, worker):
        _, _, headers = await ask(running, "Prove the theorem", model="adviser")
        sent = worker.requests[-1].json()
    assert sent == {"model": "adviser", "messages": [{"role": "user", "content": "Prove the theorem"}]}
    assert list(headers.values()) == [None, "off", "adviser", "false"]


@pytest.mark.parametrize("model", ["auto", "adviser"])
async def test_a_rule_that_blocks_is_a_403_whatever_the_model_and_the_turn(model):
    async with deciding() as (running, worker):
        messages = [
            {"role": "user", "content": "my card is 4111-1111-1111-1111"},
            {"role": "assistant", "content": "ok"},
            {"role": "user", "content": "what was it?"},
        ]
        status, body, headers = await running.chat(model=model, messages=messages)
        assert not worker.requests
    assert status == 403 and body["error"]["code"] == "blocked_by_rule"
    assert not any(name.startswith("x-vsr-") for name in headers)


@pytest.mark.parametrize("content", ["", [], None, [{"type": "image_url", "image_url": {"url": "data:,"}}]])
async def test_auto_without_text_goes_to_the_default_model_and_never_on_as_auto(content):
    async with deciding() as (running, worker):
        status, _, headers = await ask(running, content)
        assert status == 200 and worker.requests[-1].json()["model"] == "general"
    assert headers["x-vsr-selected-category"] is None


async def test_without_any_model_configured_auto_is_whatever_a_worker_serves():
    async with deciding(section={"shipped_prompts": False}) as (running, worker):
        status, _, _ = await ask(running, "hello")
        assert status == 200 and worker.requests[-1].json()["model"] in MODELS


async def test_headers_are_on_answers_of_models_alone():
    async def refuse(exchange):
        await exchange.reply(400, b'{"error": {"message": "no"}}')

    async with deciding(behaviour=refuse) as (running, _):
        status, _, headers = await ask(running, "Prove the theorem")
    assert status == 400 and not any(headers.values())


async def test_what_clients_say_in_the_gateways_name_reaches_nobody():
    async with deciding() as (running, worker):
        spoofed = {
            "x-vsr-selected-model": "general",
            "x-vsr-category": "law",
            "x-gateway-destination-endpoint": "10.0.0.1:22",
            "x-selected-model": "general",
        }
        body = {"model": "auto", "messages": [{"role": "user", "content": "the theorem"}]}
        await running.post("/v1/chat/completions", body, headers=spoofed)
        sent = worker.requests[-1].headers
    assert sent["x-selected-model"] == sent["x-vsr-model"] == "prover"
    assert sent["x-vsr-category"] == "math" and sent["x-vsr-reasoning"] == "true"
    assert "x-vsr-cache-status" not in sent
    assert "x-gateway-destination-endpoint" not in sent and "x-vsr-selected-model" not in sent


async def test_workers_are_told_whether_the_cache_was_asked():
    async with scripted_worker(models=MODELS) as worker:
        on = {"enabled": True}
        async with running_gateway(worker.url, semantic=SECTION, semantic_cache=on) as running:
            body = {"model": "auto", "messages": [{"role": "user", "content": "the theorem"}]}
            for said in ({}, {"x-vsr-cache-control": "no-cache"}, {"x-vsr-cache-control": "no-store"}):
                await running.post("/v1/chat/completions", body, headers=said)
    told = [request.headers["x-vsr-cache-status"] for request in worker.requests if request.body]
    assert told == ["miss", "bypass", "bypass"]


async def test_a_model_without_workers_is_passed_over_for_the_next():
    async with deciding(models=["general", "adviser"]) as (running, worker):
        _, _, headers = await ask(running, "Prove the theorem")
        sent = worker.requests[-1].json()
    assert headers["x-vsr-selected-model"] == sent["model"] == "adviser"
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}


async def test_a_preference_that_is_none_is_a_400_and_one_in_the_body_stays_here():
    async with deciding() as (running, worker):
        status, body, _ = await running.chat(model="auto", preference="cheapest")
        assert status == 400 and body["error"]["param"] == "preference"
        status, _, _ = await running.chat(model="auto", preference="fast")
        assert status == 200 and "preference" not in worker.requests[-1].json()


async def test_every_signal_and_why_the_winner_won_is_in_the_journal_without_the_text():
    async with deciding() as (running, _):
        _, _, headers = await running.chat(
            model="auto", messages=[{"role": "user", "content": "Prove the secret theorem"}]
        )
        _, told = await running.get(f"/explain/{headers['x-request-id']}")
    entry = next(step for step in told["steps"] if step["step"] == "semantic")
    assert entry["model"] == "prover" and entry["reason"] == "keyword" and entry["category"] == "math"
    assert {"kind", "name", "value", "matched", "confidence", "latency_ms"} == entry["signals"][0].keys()
    assert [each["model"] for each in entry["candidates"]] == ["prover", "adviser", "general"]
    assert "secret" not in json.dumps(told)


async def test_feedback_moves_the_score_until_another_model_is_better():
    section = SECTION | {"feedback": {"strength": 2}}
    async with deciding(section=section) as (running, _):
        models = []
        for _ in range(6):
            _, _, headers = await running.chat(
                model="auto", messages=[{"role": "user", "content": "the theorem"}]
            )
            models.append(headers["x-vsr-selected-model"])
            judgement = {"request_id": headers["x-request-id"], "rating": "down"}
            status, said, _ = await running.post("/feedback", judgement)
            assert status == 200 and said["category"] == "math"
        status, said, _ = await running.post("/feedback", judgement)
    # 1.0 is worth two judgements: after three that are bad, 2/5 is less than the other's 0.5
    assert models[:4] == ["prover", "prover", "prover", "adviser"]
    assert status == 404 and said["error"]["param"] == "request_id"


async def test_a_bad_edit_keeps_the_last_good_configuration_and_says_why(tmp_path):
    file = tmp_path / "router.yaml"
    file.write_text("default_model: general\n")
    async with deciding(section={"config": str(file), "watch": False}) as (running, _):
        file.write_text("default_model: prover\nshiped_prompts: true\n")
        status, said, _ = await running.post("/config/semantic/reload", {})
        assert status == 409 and "router.yaml:2: shiped_prompts: there is no such key" in said["message"]
        _, _, headers = await ask(running, "hello")
        assert headers["x-vsr-selected-model"] == "general"
        _, health = await running.get("/health")
        assert "shiped_prompts" in health["semantic"]["error"]
        for nothing in ("", "# later\n"):  # as it is while somebody writes it
            file.write_text(nothing)
            status, said, _ = await running.post("/config/semantic/reload", {})
            assert status == 409 and "router.yaml: there is nothing in it" in said["message"]
        file.write_text("default_model: prover\n")
        assert (await running.post("/config/semantic/reload", {}))[0] == 200
        _, _, headers = await ask(running, "hello")
        assert headers["x-vsr-selected-model"] == "prover"


async def test_a_reload_that_meets_a_defect_keeps_the_last_good_configuration(tmp_path, monkeypatch):
    file = tmp_path / "router.yaml"
    file.write_text("default_model: general\n")

    async def broken(*_):
        raise RuntimeError("a defect")

    async with deciding(section={"config": str(file), "watch": False}) as (running, _):
        monkeypatch.setattr("radixway.semantics.decisions.snapshot_store.compile_snapshot", broken)
        status, said, _ = await running.post("/config/semantic/reload", {})
        assert status == 409 and said["message"] == "internal error (RuntimeError)"
        assert (await ask(running, "hello"))[0] == 200


async def test_a_changed_file_takes_effect_by_itself(tmp_path):
    file = tmp_path / "router.yaml"
    file.write_text("default_model: general\n")
    async with deciding(section={"config": str(file)}) as (running, _):
        before = (await running.get("/config/semantic"))[1]["checksum"]
        async with asyncio.timeout(20):
            while (await running.get("/config/semantic"))[1]["checksum"] == before:
                written = tmp_path / "written.yaml"
                written.write_text("default_model: prover\n")
                written.replace(file)
        _, _, headers = await ask(running, "hello")
    assert headers["x-vsr-selected-model"] == "prover"


async def test_a_decision_of_v0_1_sets_model_prompt_effort_and_headers():
    section = {"config": str(OCTOBER.with_name("v0_1.yaml"))}
    async with deciding(models=["qwen3", "phi4"], section=section) as (running, worker):
        body = {"model": "auto", "messages": [{"role": "user", "content": "紧急：服务器宕机了"}]}
        await running.post("/v1/chat/completions", body, headers={"x-debug": "1"})
        urgent = worker.requests[-1]
        await ask(running, "urgent: free money, the server is down")
        other = worker.requests[-1].json()
    assert urgent.json()["model"] == "qwen3"
    assert urgent.json()["chat_template_kwargs"] == {"enable_thinking": True}
    assert urgent.json()["messages"][0] == {"role": "system", "content": "简短回答。"}
    assert urgent.headers["x-urgent"] == "yes" and "x-debug" not in urgent.headers
    assert other["model"] == "phi4"


async def test_the_names_that_leave_the_choice_are_among_the_models():
    async with deciding(section=SECTION | {"include_config_models_in_list": True}) as (running, _):
        _, listed = await running.get("/v1/models")
        owners = {model["id"]: model["owned_by"] for model in listed["data"]}
        _, one = await running.get("/v1/models/MoM")
    assert owners == dict.fromkeys(("MoM", "auto", *MODELS), "radixway")
    assert one["id"] == "MoM"


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Solve the quadratic equation x^2 - 5x + 6 = 0 and show each step of the algebra.", "math"),
        ("Explain how enzymes and mitochondria help a cell to make energy.", "biology"),
        ("一个正方形的面积是16平方厘米，求它的周长。", "math"),
    ],
)
async def test_the_shipped_head_finds_the_domain(text, category):
    section = {
        "default_model": "general",
        "categories": [
            {"name": name, "model_scores": [{"model": model, "score": 1, "use_reasoning": False}]}
            for name, model in (("math", "prover"), ("biology", "adviser"))
        ],
    }
    async with deciding(section=section) as (running, _):
        _, _, headers = await ask(running, text)
    assert headers["x-vsr-selected-category"] == category
    assert headers["x-vsr-selected-model"] == {"math": "prover", "biology": "adviser"}[category]


async def test_what_is_blocked_is_blocked_on_generate_too():
    async with deciding() as (running, worker):
        for text in ("my card is 4111-1111-1111-1111", ["hi", "4111-1111-1111-1111"]):
            status, body, _ = await running.post("/generate", {"text": text})
            assert status == 403 and body["error"]["code"] == "blocked_by_rule"
        status, _, _ = await running.post("/generate", {"text": "hello", "model": "auto"})
        assert len(worker.requests) == (1 if status == 200 else 0)
        status, _, _ = await running.post("/generate", {"input_ids": [1, 2, 3], "model": "general"})
        assert status == 200


async def test_a_long_text_is_judged_in_a_thread_of_its_own(monkeypatch):
    threads = set()
    read = KeywordDetector.detect_signals

    def watched(self, question, encoding=None):
        threads.add(threading.current_thread())
        return read(self, question, encoding)

    monkeypatch.setattr(KeywordDetector, "detect_signals", watched)
    async with deciding() as (running, _):
        await ask(running, "theorem")
        assert threads == {threading.main_thread()}
        status, _, headers = await ask(running, "theorem " * 20_000)
    assert status == 200 and headers["x-vsr-selected-category"] == "math"
    assert len(threads) == 2, "others are answered meanwhile"


async def test_signals_and_cache_share_one_pass_whether_a_text_comes_whole_or_in_parts(monkeypatch):
    read, passes = EncoderService.encode_unshared, []

    async def counted(self, text, **more):
        passes.append(text)
        return await read(self, text, **more)

    monkeypatch.setattr(EncoderService, "encode_unshared", counted)
    parts = [{"type": "text", "text": each} for each in ("How do plants", "make sugar?")]
    async with scripted_worker(models=MODELS) as worker:
        on = {"enabled": True}
        async with running_gateway(worker.url, semantic=SECTION, semantic_cache=on) as running:
            for content in ("How do cells divide?", parts):
                await running.chat(model="auto", messages=[{"role": "user", "content": content}])
    assert passes == ["How do cells divide?", "How do plants\nmake sugar?"]
