"""The questions without packages, for clients who leave, and the system prompts' switches."""

import asyncio
import copy
import sys

import pytest
from fastapi import Request

from radixway.api.client_requests import run_while_connected
from radixway.core.http import ClientDisconnectedError
from support.running_gateway import running_gateway

pytest.importorskip("re2")

SECTION = {
    "default_model": "general",
    "keyword_rules": [{"category": "math", "keywords": ["theorem"]}],
    "fusion": {"certain_at": 0.6},
    "categories": [
        {
            "name": "math",
            "system_prompt": "You prove.",
            "model_scores": [{"model": "m", "score": 1, "use_reasoning": False}],
        },
        {
            "name": "law",
            "system_prompt": {"en": "You judge.", "zh": "你裁判。"},
            "model_scores": [{"model": "m", "score": 1, "use_reasoning": False}],
        },
    ],
}
PROMPTS = "/config/system-prompts"


async def test_without_the_packages_the_questions_say_what_to_install(monkeypatch):
    for name in [
        name
        for name in sys.modules
        if name.startswith(("radixway.semantics.encoders", "radixway.semantics.classification"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    async with running_gateway() as running:
        for path, body in (
            ("/api/v1/classify/intent", {"text": "a"}),
            ("/api/v1/classify/batch", {"texts": ["a"]}),
            ("/api/v1/embeddings", {"texts": ["a"]}),
        ):
            status, told, _ = await running.post(path, body)
            assert status == 503, told
            assert (
                told["error"]["missing"] == ["encoder"] and "radixway[semantic]" in told["error"]["message"]
            )
        assert (await running.get("/health"))[0] == 200


async def test_a_gateway_that_is_asked_nothing_imports_no_encoder():
    code = (
        "import asyncio, sys\n"
        "from radixway.gateway.app import Gateway\n"
        "from radixway.core.config import load_config\n"
        "async def main():\n"
        "    async with Gateway(load_config(overrides={})).running():\n"
        "        pass\n"
        "asyncio.run(main())\n"
        "heavy = {'numpy', 'tokenizers', 'onnxruntime', 'radixway.semantics.encoders'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert told.decode().strip() == "[]"


async def test_an_encoder_that_the_head_was_not_trained_on_makes_vectors_and_knows_no_domains(
    one_encoder, monkeypatch
):
    other = copy.copy(one_encoder)
    other.weights = "0" * 64
    monkeypatch.setattr("radixway.semantics.encoders.factory.load_encoder", lambda config: other)
    async with running_gateway() as running:
        status, told, _ = await running.post("/api/v1/classify/intent", {"text": "What is a proof?"})
        assert status == 503 and told["error"]["code"] == "DOMAIN_CLASSIFIER_UNAVAILABLE"
        assert (await running.post("/api/v1/embeddings", {"texts": ["a"]}))[0] == 200
        status, told, _ = await running.post("/api/v1/classify/pii", {"text": "I am Jane Doe."})
        assert status == 503 and told["error"]["code"] == "PII_CLASSIFIER_UNAVAILABLE"
        _, told = await running.get("/info/classifier")
        assert "intent_classification" not in told["capabilities"]
        assert "pii_detection" not in told["capabilities"]


async def test_an_encoder_that_cannot_be_loaded_is_an_honest_error(tmp_path):
    async with running_gateway(encoders={"model": str(tmp_path / "none")}) as running:
        for path, body in (("classify/intent", {"text": "a"}), ("embeddings", {"texts": ["a"]})):
            status, told, _ = await running.post(f"/api/v1/{path}", body)
            assert status == 503 and told["error"]["code"] == "ENCODER_UNAVAILABLE", told
        _, told = await running.get("/info/classifier")
        assert told["status"] == "unavailable" and told["capabilities"] == []


async def test_work_for_a_client_who_leaves_is_given_up():
    began, given_up, leave = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def receive():
        await leave.wait()
        return {"type": "http.disconnect"}

    async def work():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    request = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
    answering = asyncio.create_task(run_while_connected(request, work()))
    await began.wait()
    leave.set()
    with pytest.raises(ClientDisconnectedError):
        await answering
    async with asyncio.timeout(10):
        await given_up.wait()


async def test_system_prompts_are_seen_and_switched_for_requests_too():
    from support.scripted_worker import scripted_worker

    async with scripted_worker(models=["m", "general"]) as worker:
        async with running_gateway(worker.url, semantic=SECTION) as running:
            _, told = await running.get(PROMPTS)
            assert told["system_prompts"] == [
                {"category": "math", "prompt": "You prove.", "enabled": True, "mode": "replace"},
                {
                    "category": "law",
                    "prompt": "You judge.",
                    "enabled": True,
                    "mode": "replace",
                    "prompts": {"en": "You judge.", "zh": "你裁判。"},
                },
            ]

            async def injected():
                body = [{"role": "user", "content": "a theorem"}]
                _, _, headers = await running.chat(model="auto", messages=body)
                return headers["x-vsr-injected-system-prompt"]

            assert await injected() == "true"
            url = running.url + PROMPTS
            async with running.client.put(url, json={"category": "math", "enabled": False}) as response:
                told = await response.json()
            assert [each["enabled"] for each in told["system_prompts"]] == [False, True]
            assert await injected() == "false"
            async with running.client.put(url, json={"enabled": True, "mode": "insert"}) as response:
                told = await response.json()
            assert {(each["enabled"], each["mode"]) for each in told["system_prompts"]} == {(True, "insert")}
            assert await injected() == "true"


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({}, 400, "INVALID_INPUT", "enabled"),
        ({"mode": "append"}, 400, "INVALID_INPUT", "mode"),
        ({"enabled": True, "categry": "math"}, 400, "INVALID_INPUT", "categry"),
        ({"enabled": True, "category": "art"}, 404, "CATEGORY_NOT_FOUND", "category"),
    ],
)
async def test_a_switch_that_cannot_be_thrown_names_the_field(body, status, code, param):
    async with running_gateway(semantic=SECTION) as running:
        async with running.client.put(running.url + PROMPTS, json=body) as response:
            told = (await response.json())["error"]
            assert (response.status, told["code"], told["param"]) == (status, code, param)


async def test_system_prompts_are_the_operators_and_there_are_none_without_semantic():
    key = {"authorization": "Bearer secret"}
    async with running_gateway(gateway={"admin_key": "secret"}) as running:
        assert (await running.get(PROMPTS))[0] == 401
        assert await running.get(PROMPTS, headers=key) == (200, {"system_prompts": []})
        async with running.client.put(
            running.url + PROMPTS, json={"enabled": False}, headers=key
        ) as response:
            assert response.status == 409
            assert (await response.json())["error"]["code"] == "SEMANTIC_NOT_CONFIGURED"
