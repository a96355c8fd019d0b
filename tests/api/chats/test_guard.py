"""Chats go the gateway's road: its guard, its cache and its choice of a model are theirs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.chat_user import ChatUser, login, words
from support.chatting import Chatter
from support.guarded import ATTACK, EMAIL, guarded
from support.guarded_answers import chat_body, chat_stream
from support.hand_driven_worker import CHAT
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

OPEN = CHAT | {"models": [], "limits": {"at_once": 100}}
BLOCKS = {"jailbreak": {"action": "block"}, "pii": {"action": "block"}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))


async def echo(exchange: Exchange) -> None:
    """Says again what it was told last, in events of five characters."""
    text = exchange.json()["messages"][-1]["content"]
    if not exchange.json().get("stream"):
        await exchange.reply(200, chat_body(text))
        return
    await exchange.begin_stream()
    for event in chat_stream([text[at : at + 5] for at in range(0, len(text), 5)]):
        await exchange.chunk(event)
    await exchange.end_stream()


@pytest.fixture
async def worker() -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(echo) as worker:
        yield worker


def chatter(eve: ChatUser) -> Chatter:
    return Chatter(eve.gateway, eve.headers["Authorization"].removeprefix("Bearer "))


async def said_next(eve: ChatUser, answer: dict[str, Any], content: str) -> dict[str, Any]:
    """The next turn of a chat by the published paths."""
    path = f"/chats/{answer['chat_id']}"
    status, said = await eve.call(
        "POST", f"{path}/prompter_message", {"parent_id": answer["id"], "content": content}
    )
    assert status == 200, said
    body = {"parent_id": said["id"], "model_config_name": "m"}
    status, answer = await eve.call("POST", f"{path}/assistant_message", body)
    assert status == 200, answer
    return (await eve.heard(answer))[-1]


@pytest.mark.parametrize(("question", "told"), [(ATTACK, "instruction_override"), (EMAIL, "EMAIL_ADDRESS")])
async def test_what_the_guard_blocks_ends_in_words_and_the_chat_goes_on(
    monkeypatch: pytest.MonkeyPatch, worker: ScriptedWorker, question: str, told: str
) -> None:
    async with guarded(monkeypatch, worker.url, chat=OPEN, guard=BLOCKS) as gateway:
        eve = await login(gateway, "eve")
        blocked = await eve.asked(question)
        heard = await eve.heard(blocked)
        assert told in words(heard) and heard[-1]["message"]["state"] == "complete"
        assert worker.requests == []
        user = chatter(eve)
        _, read = await user.call("GET", f"/{blocked['chat_id']}/messages/{blocked['id']}")
        assert read["finish_reason"] == "content_filter" and read["content"] == words(heard)
        edited = f"/{blocked['chat_id']}/messages/{blocked['parent_id']}/edit"
        status, turn = await user.call("POST", edited, {"content": "Hello", "model": "m"})
        assert status == 200 and turn["answer"]["content"] == "Hello"


@pytest.mark.parametrize("status", [200, 403])
@pytest.mark.parametrize("question", [ATTACK, EMAIL])
async def test_no_way_of_blocking_leaves_a_chat_stuck(
    monkeypatch: pytest.MonkeyPatch, worker: ScriptedWorker, status: int, question: str
) -> None:
    guard = BLOCKS | {"block": {"status": status}}
    async with guarded(monkeypatch, worker.url, chat=OPEN, guard=guard) as gateway:
        eve = await login(gateway, "eve")
        blocked = await eve.asked(question)
        assert (await eve.heard(blocked))[-1]["message"]["state"] == "complete"
        end = await said_next(eve, blocked, "And now?")
        assert end["message"]["content"] == "And now?"
        shown = worker.requests[0].json()["messages"]
        assert [message["content"] for message in shown] == ["And now?"]
        later = await said_next(eve, end["message"], "And then?")
        assert later["message"]["content"] == "And then?"


async def test_a_response_that_was_blocked_can_be_gone_on_from(
    monkeypatch: pytest.MonkeyPatch, worker: ScriptedWorker
) -> None:
    async with guarded(monkeypatch, worker.url, chat=OPEN, guard=BLOCKS) as gateway:
        body: dict[str, Any] = {"model": "m", "input": ATTACK}
        status, blocked, _ = await gateway.post("/v1/responses", body)
        assert (status, blocked["status"]) == (200, "incomplete")
        assert blocked["incomplete_details"] == {"reason": "content_filter"}
        body = {"model": "m", "input": "And now?", "previous_response_id": blocked["id"]}
        _, answer, _ = await gateway.post("/v1/responses", body)
        assert answer["output"][-1]["content"][0]["text"] == "And now?"


async def test_a_guard_that_fails_and_lets_nothing_pass_ends_an_answer_and_no_chat(
    monkeypatch: pytest.MonkeyPatch, worker: ScriptedWorker
) -> None:
    guard = {"jailbreak": {"action": "block", "on_error": "block"}}
    async with guarded(monkeypatch, worker.url, chat=OPEN, guard=guard) as gateway:
        user = chatter(await login(gateway, "eve"))
        gateway.judge.broken = True
        chat = await user.chat()
        turn = await user.ask(chat, "Hello")
        assert turn["answer"]["state"] == "aborted_by_worker" and worker.requests == []
        gateway.judge.broken = False
        _, again = await user.call("POST", f"{chat}/messages/{turn['answer']['id']}/regenerate", {})
        assert again["content"] == "Hello"


async def test_masked_and_redacted_data_never_reach_the_worker_and_come_back_restored(
    monkeypatch: pytest.MonkeyPatch, worker: ScriptedWorker
) -> None:
    async with guarded(monkeypatch, worker.url, chat=OPEN, guard={"pii": {"action": "redact"}}) as gateway:
        user = chatter(await login(gateway, "eve"))
        chat = await user.chat()
        turn = await user.ask(chat, f"Write to {EMAIL} now")
        assert EMAIL not in worker.requests[0].body.decode()
        assert "[EMAIL_ADDRESS_1]" in worker.requests[0].body.decode()
        assert turn["answer"]["content"] == f"Write to {EMAIL} now"
        await user.ask(chat, "And?")
        assert EMAIL not in worker.requests[1].body.decode()  # neither what she said nor what was restored


async def test_an_answer_that_the_guard_cuts_off_is_stored_as_it_was_heard(
    monkeypatch: pytest.MonkeyPatch, worker: ScriptedWorker
) -> None:
    guard = {"answers": {"pii": {"action": "block", "may_repeat": False}}}
    async with guarded(monkeypatch, worker.url, chat=OPEN, guard=guard) as gateway:
        user = chatter(await login(gateway, "eve"))
        turn = await user.ask(await user.chat(), f"Sure. Ask {EMAIL} now")
        assert turn["answer"]["content"] == "Sure. Ask " and turn["answer"]["state"] == "complete"
        assert turn["answer"]["finish_reason"] == "content_filter"


async def test_a_question_that_was_answered_before_comes_from_the_cache(worker: ScriptedWorker) -> None:
    async with running_gateway(worker.url, chat=OPEN, semantic_cache={"enabled": True}) as gateway:
        user = chatter(await login(gateway, "eve"))
        for _ in range(2):
            turn = await user.ask(await user.chat(), "What is a radix tree?")
            assert turn["answer"]["content"] == "What is a radix tree?"
            await gateway.gateway.cache.middleware.wait_for_writes()
        assert len(worker.requests) == 1


async def test_auto_leaves_the_model_to_the_semantic_layer() -> None:
    pytest.importorskip("re2")
    rules = [{"category": "math", "keywords": ["theorem"]}]
    math = {"name": "math", "model_scores": [{"model": "prover", "score": 1, "use_reasoning": False}]}
    semantic = {"default_model": "m", "keyword_rules": rules, "categories": [math]}
    semantic |= {"fusion": {"certain_at": 0.6}}
    async with scripted_worker(echo, models=["m"]) as m, scripted_worker(echo, models=["prover"]) as prover:
        async with running_gateway(m.url, prover.url, chat=OPEN, semantic=semantic) as gateway:
            user = chatter(await login(gateway, "eve"))
            chat = await user.chat()
            await user.ask(chat, "Explain the theorem of Pythagoras", model="auto")
            assert [json.loads(each.body)["model"] for each in prover.requests] == ["prover"]
            assert m.requests == []
