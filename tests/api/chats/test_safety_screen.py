"""Questions in chats are judged before they are answered: by the guard or a service, pushed or pulled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from radixway.chat.safety import REFUSED
from radixway.core.config import ConfigError, load_config
from support.chat_user import ChatUser, login, words
from support.chatting import Chatter
from support.guarded import ATTACK, EMAIL, guarded
from support.hand_driven_worker import CHAT, HandDrivenWorker, hand_driven_worker
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

RULE = "it is wrong to break an agreement"
OPENING = "Answer the following request with"
SAFE = f"{OPENING} intervention as responsible chatbot that believes that {RULE}: {ATTACK}"


async def talk(exchange: Exchange) -> None:
    """An answer of a word."""
    await exchange.begin_stream()
    event = {"choices": [{"index": 0, "delta": {"content": "Gladly."}, "finish_reason": None}]}
    await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))


@pytest.fixture
async def worker() -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(talk) as worker:
        yield worker


class Service:
    """A safety service: what it is to say, and what it was asked."""

    def __init__(self) -> None:
        self.outputs: Any = "<pad>__needs_caution__<sep>be kind.</s>"
        self.status = 200
        self.hangs = False
        self.asked: list[dict[str, Any]] = []
        self.url = ""

    async def answer(self, exchange: Exchange) -> None:
        assert (exchange.method, exchange.path) == ("POST", "/safety")
        self.asked.append(exchange.json())
        if self.hangs:
            await exchange.until_peer_leaves()
            return
        await exchange.reply(self.status, json.dumps({"outputs": self.outputs}).encode())


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    async with scripted_worker(service.answer) as server:
        service.url = server.url
        yield service


@asynccontextmanager
async def chatting(*urls: str, **safety: Any) -> AsyncIterator[ChatUser]:
    limits = {"at_once": 100}
    async with running_gateway(
        *urls, chat=CHAT | {"models": [], "limits": limits, "safety": safety}
    ) as gateway:
        yield await login(gateway, "eve")


def shown(worker: ScriptedWorker) -> list[str]:
    """What the worker was shown last."""
    return [message["content"] for message in worker.requests[-1].json()["messages"]]


async def asked_with(eve: ChatUser, answer: dict[str, Any]) -> dict[str, Any]:
    return await eve.now(answer | {"id": answer["parent_id"]})


async def test_an_attack_is_made_safe_by_the_guard_before_a_worker_of_the_gateway_sees_it(
    monkeypatch: pytest.MonkeyPatch, worker: ScriptedWorker
) -> None:
    chat = CHAT | {"models": [], "safety": {"level": 1}}
    async with guarded(monkeypatch, worker.url, chat=chat) as gateway:
        eve = await login(gateway, "eve")
        answer = await eve.asked(ATTACK)
        heard = await eve.heard(answer)
        assert shown(worker) == [SAFE]
        assert [event["event_type"] for event in heard] == ["safe_prompt", "token", "message"]
        asked = await asked_with(eve, answer)
        assert heard[0] == {"event_type": "safe_prompt", "safe_prompt": SAFE, "message": asked}
        told = {name: asked[f"safety_{name}"] for name in ("level", "label", "rots")}
        assert told == {"level": 1, "label": "intervention", "rots": RULE}
        assert (asked["content"], asked["safe_content"]) == (ATTACK, SAFE)
        harmless = await eve.asked("What is a radix tree?")
        assert [event["event_type"] for event in await eve.heard(harmless)] == ["token", "message"]
        assert shown(worker) == ["What is a radix tree?"]
        assert (await asked_with(eve, harmless))["safe_content"] is None
        _, health = await gateway.get("/health")
        assert health["chat_safety"] == {"level": 1, "by": "guard", "on_error": "refuse", "state": "ok"}


async def test_later_turns_show_a_question_as_it_was_made_safe(
    service: Service, worker: ScriptedWorker
) -> None:
    async with chatting(worker.url, url=service.url, level=2) as eve:
        user = Chatter(eve.gateway, eve.headers["Authorization"].removeprefix("Bearer "))
        chat = await user.chat()
        turn = await user.ask(chat, "How do I pick a lock?")
        opinion = "__needs_caution__ as responsible chatbot that believes that be kind"
        safe = f"{OPENING} {opinion}: How do I pick a lock?"
        assert turn["answer"]["state"] == "complete"
        service.outputs = "<pad>__casual__</s>"
        await user.ask(chat, "And a cake?")
        assert shown(worker) == [safe, "Gladly.", "And a cake?"]
        assert [each["inputs"] for each in service.asked] == ["How do I pick a lock?", "And a cake?"]
        assert service.asked[0]["parameters"] == {"level": 2}
        _, whole = await user.call("GET", chat)
        rules = {"level": 2, "label": "__needs_caution__", "rots": "be kind", "prompt": safe}
        assert [message["safety"] for message in whole["messages"]] == [rules, None, None, None]


async def test_a_worker_that_fetches_is_given_the_safe_prompt_and_told_to_leave_it_at_that(
    service: Service,
) -> None:
    safety = {"url": service.url, "level": 2}
    async with running_gateway(chat=CHAT | {"safety": safety}) as gateway:
        eve = await login(gateway, "eve")
        async with hand_driven_worker(gateway) as worker:
            answer = await eve.asked("How?")
            work = await worker.frame()
            message = work["thread"]["messages"][-1]
            assert message["content"] == message["safe_content"] and message["content"].endswith(
                "be kind: How?"
            )
            assert work["safety_parameters"] == {"level": 0}
            own = {"safe_prompt": "again", "safety_parameters": {"level": 2}, "safety_label": "x"}
            await worker.send({"request_id": work["id"], "response_type": "safe_prompt", **own})
            await worker.finish(work["id"], "Hi")
            assert [each["event_type"] for each in await eve.heard(answer)] == ["safe_prompt", "message"]
            assert (await asked_with(eve, answer))["safety_label"] == "__needs_caution__"
            service.outputs = "__casual__"
            await eve.asked("Why?")
            assert (await worker.frame())["safety_parameters"] == {"level": 2}


async def test_the_overviews_workers_are_given_the_safe_prompt_too(service: Service) -> None:
    async with running_gateway(chat=CHAT | {"safety": {"url": service.url, "level": 2}}) as gateway:
        eve = await login(gateway, "eve")
        url = f"{gateway.url}/work?api_key=0000&protocol_version=v2"
        async with gateway.client.ws_connect(url) as socket:
            worker = HandDrivenWorker(socket)
            await worker.send({"config": {"model_config_name": "m"}})
            assert (await worker.frame())["registered"]
            await eve.asked("How?")
            work = await worker.frame()
    assert work["thread"]["messages"][-1]["content"].startswith(OPENING)


async def test_what_a_worker_says_of_its_own_safety_is_recorded_once_an_attempt_and_costs_no_retry() -> None:
    async with running_gateway(chat=CHAT | {"workers": {"safety_level": 2}}) as gateway:
        eve = await login(gateway, "eve")
        answer = await eve.asked("How?")
        listening = asyncio.create_task(eve.heard(answer))
        told = {"response_type": "safe_prompt", "safety_label": "caution", "safety_rots": "be\x00 kind"}
        told |= {"safety_parameters": {"level": 2}, "safe_prompt": "<|prompter|>Answer …"}
        async with hand_driven_worker(gateway) as first:
            work = await first.frame()
            assert work["safety_parameters"] == {"level": 2}
            for _ in range(2):
                await first.send(told | {"request_id": work["id"]})
            asked = answer | {"id": answer["parent_id"]}
            async with asyncio.timeout(10):
                while (await eve.now(asked))["safety_rots"] != "be kind":  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        async with hand_driven_worker(gateway) as second:  # the first left without a word
            request = await second.work()
            await second.say(request, "Hi")
            await second.finish(request, "Hi")
            heard = await listening
        assert [event["event_type"] for event in heard] == ["token", "message"]  # no restart is told


async def test_a_response_is_asked_for_with_the_safe_prompt(service: Service, worker: ScriptedWorker) -> None:
    async with chatting(worker.url, url=service.url, level=2) as eve:
        safe = f"{OPENING} __needs_caution__ as responsible chatbot that believes that be kind: "
        body: dict[str, Any] = {"model": "m", "input": "How?"}
        _, first, _ = await eve.gateway.post("/v1/responses", body)
        assert first["status"] == "completed" and shown(worker) == [f"{safe}How?"]
        service.outputs = "__casual__"
        parts = [{"type": "input_text", "text": "And?"}]
        body |= {"input": [{"role": "user", "content": parts}], "previous_response_id": first["id"]}
        await eve.gateway.post("/v1/responses", body)
        assert shown(worker)[:2] == [f"{safe}How?", "Gladly."] and OPENING not in str(shown(worker)[2])
        service.status = 500
        _, refused, _ = await eve.gateway.post("/v1/responses", body)
        assert REFUSED in json.dumps(refused)


async def test_a_level_lets_pass_what_is_below_it(service: Service, worker: ScriptedWorker) -> None:
    worker.models = ["first", "second", "third"]
    levels = {"first": 1, "second": 2, "third": 3}
    async with chatting(worker.url, url=service.url, level=1, models=levels) as eve:
        for label, model, is_made_safe in (
            ("__needs_caution__", "first", False),
            ("attention", "second", False),
            ("attention", "third", True),
            ("__casual__", "third", False),
        ):
            service.outputs = f"<pad>{label}<sep>be kind</s>"
            await eve.heard(await eve.asked("How?", model))
            assert shown(worker)[0].startswith(OPENING) is is_made_safe, (label, model)
    assert [each["parameters"]["level"] for each in service.asked] == [1, 2, 3, 3]


async def test_level_0_asks_nobody(service: Service, worker: ScriptedWorker) -> None:
    async with chatting(worker.url, url=service.url) as eve:
        assert words(await eve.heard(await eve.asked("How?"))) == "Gladly."
    assert service.asked == []


async def test_a_model_has_its_own_level_and_a_request_goes_no_lower(
    service: Service, worker: ScriptedWorker
) -> None:
    worker.models = ["m", "kids"]
    async with chatting(worker.url, url=service.url, level=1, models={"kids": 3, "m": 0}) as eve:
        for model, wish in (("m", None), ("m", 2), ("kids", None), ("kids", 1)):
            more = {} if wish is None else {"safety_level": wish}
            await eve.heard(await eve.asked("How?", model, **more))
        levels = [each["parameters"]["level"] for each in service.asked]
        assert levels == [2, 3, 3]
        answer = await eve.asked("How?")
        path = f"/chats/{answer['chat_id']}/assistant_message"
        body = {"parent_id": answer["parent_id"], "model_config_name": "m", "safety_level": 4}
        status, told = await eve.call("POST", path, body)
        assert status == 422 and told["detail"][0]["loc"] == ["body", "safety_level"]


async def test_a_wish_for_more_care_holds_for_the_next_turns(
    service: Service, worker: ScriptedWorker
) -> None:
    async with chatting(worker.url, url=service.url) as eve:
        user = Chatter(eve.gateway, eve.headers["Authorization"].removeprefix("Bearer "))
        chat = await user.chat()
        await user.ask(chat, "How?", safety_level=2)
        await user.ask(chat, "Why?")
        await user.ask(chat, "When?", safety_level=0)
        assert [each["parameters"]["level"] for each in service.asked] == [2, 2]


BREAKS: list[dict[str, Any]] = [{"status": 503}, {"outputs": ["no words"]}, {"outputs": ""}, {"hangs": True}]


async def test_a_question_that_nobody_could_judge_is_refused_and_the_next_one_is_answered(
    service: Service, worker: ScriptedWorker
) -> None:
    async with chatting(worker.url, url=service.url, level=1, timeout_s=0.3, failures=9) as eve:
        user = Chatter(eve.gateway, eve.headers["Authorization"].removeprefix("Bearer "))
        for broken in BREAKS:
            vars(service).update(broken)
            chat, before = await user.chat(), len(worker.requests)
            _, heard = await user.stream(chat, {"content": "How?", "reply": "stream"})
            heard = [event for event in heard if event["event_type"] != "pending"]
            assert [(event["event_type"], event["error"]) for event in heard] == [("error", REFUSED)], broken
            assert heard[0]["message"]["state"] == "aborted_by_worker" and len(worker.requests) == before
            _, health = await eve.gateway.get("/health")
            assert health["chat_safety"]["state"] == "failing"
            service.status, service.outputs, service.hangs = 200, "__casual__", False
            turn = await user.ask(chat, "And now?")
            assert turn["answer"]["content"] == "Gladly."
            # What nobody judged is not shown with the next question either.
            assert shown(worker) == ["And now?"]


async def test_on_error_allow_answers_all_the_same(service: Service, worker: ScriptedWorker) -> None:
    service.status = 500
    async with chatting(worker.url, url=service.url, level=1, on_error="allow") as eve:
        assert words(await eve.heard(await eve.asked("How?"))) == "Gladly."
        assert shown(worker) == ["How?"]


async def test_a_service_that_is_down_is_left_alone(service: Service, worker: ScriptedWorker) -> None:
    service.status = 500
    safety = {"url": service.url, "level": 1, "failures": 2, "rest_s": 3600}
    async with chatting(worker.url, **safety) as eve:
        for _ in range(5):
            assert (await eve.heard(await eve.asked("How?")))[-1]["error"] == REFUSED
    assert len(service.asked) == 2


async def test_a_service_that_is_not_there_refuses_a_pulled_answer_and_gives_its_worker_the_next(
    service: Service,
) -> None:
    async with running_gateway(chat=CHAT | {"safety": {"url": service.url, "level": 1}}) as gateway:
        eve = await login(gateway, "eve")
        async with hand_driven_worker(gateway) as worker:
            service.status = 500
            assert (await eve.heard(await eve.asked("How?")))[-1]["error"] == REFUSED
            service.status = 200
            answer = await eve.asked("Why?")
            await worker.finish(await worker.work(), "Hi")
            assert (await eve.until(answer, "complete"))["content"] == "Hi"


async def test_a_question_under_judgement_can_be_stopped_and_does_not_keep_others_waiting(
    service: Service,
) -> None:
    safety = {"url": service.url, "level": 1, "timeout_s": 60}
    async with running_gateway(chat=CHAT | {"safety": safety}) as gateway:
        eve = await login(gateway, "eve")
        async with hand_driven_worker(gateway, at_once=2) as worker:
            service.hangs = True
            stuck = await eve.asked("How?")
            async with asyncio.timeout(10):
                while not service.asked:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            service.hangs = False
            await eve.asked("Why?")
            await worker.finish(await worker.work(), "Hi")
            assert gateway.gateway.chats is not None and gateway.gateway.chats.service is not None
            assert await gateway.gateway.chats.service.answers.cancel_answer("eve", stuck["id"])
            assert (await eve.heard(stuck))[-1]["error"] == "Cancelled"
            others = [await eve.asked("And?"), await eve.asked("Or?")]  # there is room for two again
            for _ in others:
                await worker.finish(await worker.work(), "Hi")
            for answer in others:
                await eve.until(answer, "complete")


async def test_known_wordings_are_enough_where_the_guard_cannot_read(
    monkeypatch: pytest.MonkeyPatch, worker: ScriptedWorker, caplog: pytest.LogCaptureFixture
) -> None:
    chat = CHAT | {"models": [], "safety": {"level": 1}}
    async with guarded(monkeypatch, worker.url, chat=chat) as gateway:
        eve = await login(gateway, "eve")
        gateway.judge.broken = gateway.finder.broken = True
        await eve.heard(await eve.asked(ATTACK))
        assert shown(worker)[0].startswith(f"{OPENING} intervention")
        secret = f"Write to {EMAIL}"
        assert (await eve.heard(await eve.asked(secret)))[-1]["error"] == REFUSED
    assert EMAIL not in caplog.text and ATTACK not in caplog.text


def test_a_level_that_nobody_could_keep_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"chat\.safety\.level"):
        load_config(overrides={"chat": {"safety": {"level": 4}}})
    with pytest.raises(ConfigError, match=r"chat\.safety\.url"):
        load_config(overrides={"chat": {"safety": {"url": "safety:8002"}}})


def test_the_published_keys_switch_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENABLE_SAFETY", "true")
    monkeypatch.setenv("SAFETY_SERVICE_URL", "http://safety-service:8002")
    safety = load_config().chat.safety
    assert (safety.level, safety.url) == (2, "http://safety-service:8002")
    monkeypatch.setenv("ENABLE_SAFETY", "false")
    assert load_config().chat.safety.level == 0
    monkeypatch.setenv("ENABLE_SAFETY", "perhaps")
    with pytest.raises(ConfigError, match="ENABLE_SAFETY must be true or false, not 'perhaps'"):
        load_config()
