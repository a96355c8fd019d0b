"""`/v1/chats`: questions with their answers, and other answers than the first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from radixway.api.chats.app import build_chat_app
from radixway.chat.service import ChatService
from radixway.core.config import ChatConfig
from radixway.core.pipeline import Reply, Request
from support.chatting import Chatter, login
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

pytestmark = pytest.mark.usefixtures("chat_stores")


async def say(exchange: Exchange, words: str, finish_reason: str = "stop") -> None:
    """An answer of these words, streamed."""
    await exchange.begin_stream()
    for word in words.split(" "):
        event = {"choices": [{"index": 0, "delta": {"content": f"{word} "}, "finish_reason": None}]}
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
    for event in (end, usage):
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


async def no_road(_: Request) -> Reply:
    """Of a gateway that nobody asks."""
    raise AssertionError


class Model:
    """Answers with the number of the question, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.never_ends = asyncio.Event()
        """While it is set, answers have one word and no end."""
        self.finish_reason = "stop"

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path != "/v1/chat/completions":
            await exchange.reply(404, b"{}")
            return
        self.asked.append(exchange.json())
        if self.never_ends.is_set():
            await exchange.begin_stream()
            event = {"choices": [{"index": 0, "delta": {"content": "Well"}, "finish_reason": None}]}
            await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
            await exchange.until_peer_leaves()
            return
        if self.finish_reason == "error":
            await exchange.reply(400, b'{"error": {"message": "no"}}')
            return
        await say(exchange, f"answer {len(self.asked)}", self.finish_reason)

    def last(self) -> list[str]:
        """The messages of the last question, as `role: content`."""
        return [f"{each['role']}: {each['content']}" for each in self.asked[-1]["messages"]]


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def worker(model: Model) -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(model) as worker:
        yield worker


@pytest.fixture
async def eve(
    worker: ScriptedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Chatter]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(worker.url, chat={"allow_debug_auth": True}) as gateway:
        yield await login(gateway, "eve")


async def test_a_question_and_its_answer_are_one_call(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    turn = await eve.ask(chat, "What is a tree?")
    answer = turn["answer"]
    assert (answer["state"], answer["content"]) == ("complete", "answer 1 ")
    assert answer["usage"]["completion_tokens"] == 4 and answer["finish_reason"] == "stop"
    assert 0 <= answer["waited_s"] <= answer["time_to_first_token_s"] <= answer["took_s"]
    await eve.ask(chat, "And a radix tree?")
    assert model.last() == ["user: What is a tree?", "assistant: answer 1 ", "user: And a radix tree?"]


async def test_an_answer_that_ended_before_its_first_word_is_not_shown(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    model.finish_reason = "error"
    silent = await eve.ask(chat, "What is a tree?")
    assert (silent["answer"]["state"], silent["answer"]["content"]) == ("aborted_by_worker", None)
    model.finish_reason = "stop"
    await eve.ask(chat, "And a trie?", parent_id=silent["answer"]["id"])
    assert model.last() == ["user: What is a tree?\n\nAnd a trie?"]
    _, again = await eve.call("POST", f"{chat}/messages/{silent['answer']['id']}/regenerate", {})
    assert again["state"] == "complete" and model.last() == ["user: What is a tree?"]


async def test_its_answer_can_be_streamed(eve: Chatter) -> None:
    chat = await eve.chat()
    answer_id, events = await eve.stream(chat, {"content": "hello", "reply": "stream"})
    words = [event["text"] for event in events if event["event_type"] == "token"]
    assert "".join(words) == "answer 1 " == events[-1]["message"]["content"]
    assert events[-1]["message"]["id"] == answer_id


async def test_the_same_key_asks_once(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    turns = [await eve.ask(chat, "hello", key="k") for _ in range(3)]
    assert turns[0] == turns[1] == turns[2] and len(model.asked) == 1


async def test_the_same_key_with_another_body_is_refused(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    first = await eve.ask(chat, "hello", key="k")
    answer, said = (f"{chat}/messages/{first[name]['id']}" for name in ("answer", "message"))
    calls: list[tuple[str, Any]] = [
        (f"{chat}/messages", {"content": "good morning"}),
        (f"{chat}/messages", {"content": "hello", "system_prompt": "Be brief."}),
        (f"{chat}/messages", {"content": "hello", "answer": False}),
        (f"{answer}/regenerate", {}),
        (f"{said}/edit", {"content": "hello"}),
        (f"//chats{chat}/prompter_message", {"content": "hello"}),
        (f"//chats{chat}/assistant_message", {"parent_id": first["message"]["id"], "model_config_name": "m"}),
    ]
    for path, body in calls:
        status, told = await eve.call("POST", path, body, **{"Idempotency-Key": "k"})
        assert status == 422 and "another call" in told["detail"], (path, body, told)
    assert len(model.asked) == 1
    again = {"content": "hello", "reply": "later"}
    _, turn = await eve.call("POST", f"{chat}/messages", again, **{"Idempotency-Key": "k"})
    assert turn == first


async def test_regenerated_answers_stand_beside_each_other(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    first = (await eve.ask(chat, "hello", system_prompt="Be brief."))["answer"]
    status, second = await eve.call("POST", f"{chat}/messages/{first['id']}/regenerate", {})
    assert status == 200 and second["parent_id"] == first["parent_id"]
    assert model.last() == ["system: Be brief.", "user: hello"]
    _, whole = await eve.call("GET", chat)
    assert whole["messages"][-1]["siblings"] == [first["id"], second["id"]]


async def test_an_edited_question_begins_a_branch(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    first = await eve.ask(chat, "hello")
    second = await eve.ask(chat, "more")
    path = f"{chat}/messages/{second['message']['id']}/edit"
    status, edited = await eve.call("POST", path, {"content": "less"})
    assert status == 200 and edited["message"]["parent_id"] == first["answer"]["id"]
    assert model.last() == ["user: hello", "assistant: answer 1 ", "user: less"]
    status, root = await eve.call(
        "POST", f"{chat}/messages/{first['message']['id']}/edit", {"content": "Good morning"}
    )
    assert status == 200 and root["message"]["parent_id"] is None
    assert model.last() == ["user: Good morning"]
    _, open_now = await eve.call("GET", f"{chat}/thread")
    assert [each["content"] for each in open_now["messages"]] == ["Good morning", "answer 4 "]
    _, other = await eve.call("GET", f"{chat}/thread?through={first['answer']['id']}")
    assert [each["content"] for each in other["messages"]] == ["hello", "answer 1 ", "less", "answer 3 "]


async def test_a_stopped_answer_is_continued_from_its_words(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    model.never_ends.set()
    _, turn = await eve.call("POST", f"{chat}/messages", {"content": "hello", "reply": "later"})
    path = f"{chat}/messages/{turn['answer']['id']}"
    await eve.first_word(path)
    status, stopped = await eve.call("POST", f"{path}/stop")
    assert (status, stopped["state"], stopped["content"]) == (200, "cancelled", "Well")
    assert (await eve.call("POST", f"{path}/stop"))[1] == stopped
    model.never_ends.clear()
    status, continued = await eve.call("POST", f"{path}/continue", {})
    assert status == 200 and continued["content"] == "Wellanswer 2 "
    assert continued["parent_id"] == turn["message"]["id"]
    assert model.last() == ["user: hello", "assistant: Well"]
    assert model.asked[-1]["continue_final_message"] is True
    assert (await eve.call("POST", f"{chat}/messages/{continued['id']}/continue", {}))[0] == 400


async def test_an_answer_cut_at_its_length_is_continued(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    model.finish_reason = "length"
    answer = (await eve.ask(chat, "hello"))["answer"]
    _, continued = await eve.call("POST", f"{chat}/messages/{answer['id']}/continue", {})
    assert continued["content"] == "answer 1 answer 2 "


async def test_a_chat_goes_on_below_an_answer_that_was_stopped(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    model.never_ends.set()
    _, turn = await eve.call("POST", f"{chat}/messages", {"content": "hello", "reply": "later"})
    await eve.first_word(f"{chat}/messages/{turn['answer']['id']}")
    model.never_ends.clear()
    await eve.ask(chat, "again", while_busy="interrupt")
    assert model.last() == ["user: hello", "assistant: Well", "user: again"]


async def test_a_question_that_waits_its_turn_hears_the_answer_before(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    model.never_ends.set()
    _, turn = await eve.call("POST", f"{chat}/messages", {"content": "hello", "reply": "later"})
    await eve.first_word(f"{chat}/messages/{turn['answer']['id']}")
    waiting = asyncio.create_task(eve.ask(chat, "again", while_busy="enqueue"))
    async with asyncio.timeout(10):
        while len((await eve.call("GET", chat))[1]["messages"]) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    model.never_ends.clear()
    await eve.call("POST", f"{chat}/messages/{turn['answer']['id']}/stop")
    assert (await waiting)["answer"]["content"] == "answer 2 "
    assert model.last() == ["user: hello", "assistant: Well", "user: again"]


async def test_a_pending_answer_tells_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    fetched = {"name": "m", "model_id": "m", "max_input_length": 8192, "max_total_length": 16384}
    async with running_gateway(chat={"allow_debug_auth": True, "models": [fetched]}) as gateway:
        eve = await login(gateway, "eve")
        chat = await eve.chat()
        turn = await eve.ask(chat, "hello", reply="later")
        _, waiting = await eve.call("GET", f"{chat}/messages/{turn['answer']['id']}")
        assert waiting["queue"] == {"position": 0, "size": 1, "eta_s": None}


async def test_what_is_too_long_names_its_field(
    worker: ScriptedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    chats = {"allow_debug_auth": True, "limits": {"message_characters": 5}}
    async with running_gateway(worker.url, chat=chats) as gateway:
        eve = await login(gateway, "eve")
        chat = await eve.chat()
        status, told = await eve.call("POST", f"{chat}/messages", {"content": "too long"})
        assert status == 413 and told["detail"][0]["loc"] == ["body", "content"]
        assert (await eve.ask(chat, "short"))["answer"]["state"] == "complete"


async def test_every_path_and_body_is_in_the_openapi(tmp_path: Path) -> None:
    room = ChatService(ChatConfig(), tmp_path, pipeline=no_road, served=tuple)
    paths = build_chat_app(room).openapi()["paths"]
    of_v1 = {path: calls for path, calls in paths.items() if path.startswith("/v1/chats")}
    assert len(of_v1) >= 15
    for path, calls in of_v1.items():
        for method, call in calls.items():
            assert call["summary"] and call.get("description"), (method, path)
            if method == "patch":
                assert call["requestBody"], path
    await room.database.aclose()


async def test_who_wants_no_interruption_is_refused_while_busy(eve: Chatter, model: Model) -> None:
    chat = await eve.chat()
    model.never_ends.set()
    await eve.call("POST", f"{chat}/messages", {"content": "hello", "reply": "later"})
    status, _ = await eve.call("POST", f"{chat}/messages", {"content": "again", "while_busy": "reject"})
    assert status == 409
    _, whole = await eve.call("GET", chat)
    assert len(whole["messages"]) == 2  # the refused question is not half there


async def test_chats_are_tagged_archived_and_found(eve: Chatter) -> None:
    chat = await eve.chat(title="Trees", tags=["work", "a b"])
    other = await eve.chat()
    turn = await eve.ask(chat, "什么是基数树？")
    assert (await eve.call("GET", "/tags"))[1] == [{"tag": "a b", "chats": 1}, {"tag": "work", "chats": 1}]
    _, found = await eve.call("GET", "/search?q=基数")
    assert [hit["message"]["id"] for hit in found["hits"]] == [turn["message"]["id"]]
    assert (found["hits"][0]["chat_title"], found["hits"][0]["snippet"]) == ("Trees", "什么是基数树？")
    _, changed = await eve.call("PATCH", chat, {"archived": True})
    assert changed["archived"] and changed["tags"] == ["a b", "work"]

    async def listed(query: str) -> list[str]:
        _, page = await eve.call("GET", query)
        return [f"/{each['id']}" for each in page["chats"]]

    assert await listed("") == [other]
    assert await listed("?archived=true") == await listed("?archived=true&tag=work") == [chat]
    assert await listed("?archived=true&tag=play") == []


async def test_a_link_opens_a_thread_to_strangers(eve: Chatter) -> None:
    chat = await eve.chat()
    turn = await eve.ask(chat, "hello")
    body = {"message_id": turn["answer"]["id"], "expires_in_s": 60}
    status, share = await eve.call("POST", f"{chat}/shares", body)
    assert status == 201
    stranger = Chatter(eve.gateway, "no token of ours")
    status, thread = await stranger.call("GET", f"/{share['path']}")
    assert status == 200
    assert [each["content"] for each in thread["messages"]] == ["hello", "answer 1 "]
    assert set(thread["messages"][0]) == {"role", "content", "created_at", "model"}
    [listed] = (await eve.call("GET", f"{chat}/shares"))[1]
    assert "token" not in listed and listed["id"] == share["id"]
    assert (await eve.call("DELETE", f"{chat}/shares/{share['id']}"))[0] == 204
    assert (await stranger.call("GET", f"/{share['path']}"))[0] == 404


async def test_chats_move_to_another_user(eve: Chatter) -> None:
    chat = await eve.chat(title="Trees", tags=["work"])
    await eve.ask(chat, "hello")
    status, lines = await eve.call("GET", "/export")
    assert status == 200
    assert lines == (await eve.call("GET", f"{chat}/export"))[1]
    adam = await login(eve.gateway, "adam")
    status, taken = await adam.call("POST", "/import", lines.encode())
    assert status == 201
    _, copy = await adam.call("GET", f"/{taken['chats'][0]}")
    assert (copy["title"], copy["tags"]) == ("Trees", ["work"])
    assert [each["content"] for each in copy["messages"]] == ["hello", "answer 1 "]
    turn = await adam.ask(f"/{copy['id']}", "more", model="m")
    assert turn["message"]["parent_id"] == copy["messages"][-1]["id"]
    status, told = await adam.call("POST", "/import", b"{}")
    assert status == 422 and told["detail"][0]["loc"] == ["body", "line 1"]


async def test_bad_input_names_its_field(eve: Chatter) -> None:
    chat = await eve.chat()
    for method, path, body, field in (
        ("POST", "/messages", {"content": ""}, "content"),
        ("POST", "/messages", {"content": "a\x00b"}, "content"),
        ("POST", "/messages", {"content": "x", "modle": "m"}, "modle"),
        ("POST", "/messages", {"content": "x", "model": "unheard-of"}, "model"),
        ("POST", "/messages", {"content": "x", "parent_id": "unheard-of"}, "parent_id"),
        ("POST", "/messages", {"content": "x", "while_busy": "maybe"}, "while_busy"),
        ("POST", "/messages", {"content": "x", "sampling_parameters": {"top_p": 7}}, "top_p"),
        ("PATCH", "", {"title": "x" * 101}, "title"),
    ):
        status, told = await eve.call(method, chat + path, body)
        assert status == 422 and field in told["detail"][0]["loc"], (method, path, body)


async def test_what_is_anothers_is_not_found(eve: Chatter) -> None:
    chat = await eve.chat()
    turn = await eve.ask(chat, "hello")
    mallory = await login(eve.gateway, "mallory")
    path = f"{chat}/messages/{turn['answer']['id']}"
    for method, place, body in (
        ("GET", chat, None),
        ("PATCH", chat, {"title": "mine"}),
        ("DELETE", chat, None),
        ("GET", f"{chat}/thread", None),
        ("GET", f"{chat}/shares", None),
        ("POST", f"{chat}/shares", {}),
        ("POST", f"{chat}/messages", {"content": "x"}),
        ("GET", path, None),
        ("GET", f"{path}/events", None),
        ("POST", f"{path}/stop", None),
        ("POST", f"{path}/regenerate", {}),
        ("POST", f"{path}/continue", {}),
        ("POST", f"{path}/edit", {"content": "x"}),
    ):
        assert (await mallory.call(method, place, body))[0] == 404, (method, place)
