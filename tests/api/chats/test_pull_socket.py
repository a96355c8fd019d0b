"""Workers that connect to fetch jobs, by the published protocol, and all they may do wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from radixway.chat.records import Message
from radixway.chat.safety import SafetyScreen, ScreenedQuestion
from radixway.chat.service import ChatService
from support.chat_user import ChatUser, login, words
from support.hand_driven_worker import CHAT, HEADERS, KEY, HandDrivenWorker, hand_driven_worker, worker_info
from support.published_protocol import check_work_frame
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker

pytestmark = pytest.mark.usefixtures("chat_stores")

PROMETHEUS = {"Accept": "text/plain; version=0.0.4"}


@pytest.fixture
async def eve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatUser]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    limits = {"at_once": 1000, "messages_per_user": 10_000}
    async with running_gateway(chat=CHAT | {"limits": limits}) as gateway:
        yield await login(gateway, "eve")


async def test_a_job_is_fetched_and_its_answer_heard(eve: ChatUser) -> None:
    answer = await eve.asked("What is a radix tree?", sampling_parameters={"max_new_tokens": 7})
    async with hand_driven_worker(eve.gateway) as worker:
        work = await worker.frame()
        assert set(work) == {
            "id",
            "request_type",
            "thread",
            "created_at",
            "parameters",
            "safety_parameters",
        }
        assert [message["content"] for message in work["thread"]["messages"]] == ["What is a radix tree?"]
        assert work["parameters"]["sampling_parameters"]["max_new_tokens"] == 7
        assert work["safety_parameters"] == {"level": 0} and work["id"] != answer["id"]
        assert (await eve.now(answer))["state"] == "in_progress"
        await worker.say(work["id"], "Hi", " you")
        await worker.finish(work["id"], "Hi you")
        heard = await eve.heard(answer)
    assert words(heard) == "Hi you" and heard[-1]["message"]["state"] == "complete"


async def asked_again(eve: ChatUser, answer: dict[str, Any], content: str, **more: Any) -> dict[str, Any]:
    """A further question below an answer, whatever became of it."""
    body = {"content": content, "parent_id": answer["id"], "reply": "later"} | more
    status, turn = await eve.call("POST", f"/v1/chats/{answer['chat_id']}/messages", body)
    assert status == 200, turn
    return dict(turn["answer"])


async def work_shown(worker: HandDrivenWorker) -> tuple[str, list[tuple[str, str]]]:
    """The next job, which a published worker can read: its id, and who says what in it."""
    frame = await worker.frame()
    check_work_frame(frame)
    return str(frame["id"]), [(each["role"], each["content"]) for each in frame["thread"]["messages"]]


@pytest.mark.parametrize("ends", ["stopped", "failed"])
async def test_no_message_without_words_reaches_a_worker(eve: ChatUser, ends: str) -> None:
    first = await eve.asked("What is a tree?")
    async with hand_driven_worker(eve.gateway) as worker:
        if ends == "stopped":
            await worker.work()
            path = f"/v1/chats/{first['chat_id']}/messages/{first['id']}/stop"
            assert (await eve.call("POST", path))[0] == 200
        else:
            for _ in range(3):
                await worker.fail(await worker.work(), "out of memory")
            assert (await eve.until(first, "aborted_by_worker"))["content"] is None
    second = await asked_again(eve, first, "And a trie?")
    async with hand_driven_worker(eve.gateway) as worker:
        request, shown = await work_shown(worker)
        assert shown == [("prompter", "What is a tree?\n\nAnd a trie?")]
        await worker.finish(request, "A prefix tree.")
        await eve.until(second, "complete")


async def test_drafts_of_one_answer_do_not_end_each_other(eve: ChatUser) -> None:
    """The published site asks for three at once."""
    _, chat = await eve.call("POST", "/chats", {})
    path = f"/chats/{chat['id']}"
    _, said = await eve.call("POST", f"{path}/prompter_message", {"parent_id": None, "content": "hello"})
    body = {"parent_id": said["id"], "model_config_name": "m"}
    asked = await asyncio.gather(*(eve.call("POST", f"{path}/assistant_message", body) for _ in range(3)))
    again = f"/v1{path}/messages/{asked[0][1]['id']}/regenerate"
    asked += [await eve.call("POST", again, {"reply": "later"})]
    assert [status for status, _ in asked] == [200] * 4
    drafts = [draft for _, draft in asked]
    async with hand_driven_worker(eve.gateway, at_once=4) as worker:
        for number in range(4):
            await worker.finish(await worker.work(), f"draft {number}")
        ended = [await eve.until(draft, "complete") for draft in drafts]
    assert {draft["content"] for draft in ended} == {f"draft {number}" for number in range(4)}


async def test_the_words_of_an_answer_that_was_stopped_are_shown(eve: ChatUser) -> None:
    first = await eve.asked("What is a tree?")
    async with hand_driven_worker(eve.gateway) as worker:
        await worker.say(await worker.work(), "A graph")
        await eve.first_word(first)
        await eve.call("POST", f"/v1/chats/{first['chat_id']}/messages/{first['id']}/stop")
    await asked_again(eve, first, "Go on.")
    async with hand_driven_worker(eve.gateway) as worker:
        _, shown = await work_shown(worker)
    assert shown == [("prompter", "What is a tree?"), ("assistant", "A graph"), ("prompter", "Go on.")]


@pytest.mark.parametrize("odd", [{"foo": 1}, {"schema_version": 1}, {}], ids=str)
async def test_what_a_published_worker_cannot_read_is_not_sent(eve: ChatUser, odd: dict[str, Any]) -> None:
    plugins = [{"url": "https://example.org/ai-plugin.json", "plugin_config": odd}]
    first = await eve.asked("What is a tree?", plugins=plugins)
    async with hand_driven_worker(eve.gateway) as worker:
        request, _ = await work_shown(worker)
        end = {"response_type": "generated_text", "text": "A graph.", "used_plugin": odd}
        await worker.send({"request_id": request} | end)
        await eve.until(first, "complete")
        await asked_again(eve, first, "And a trie?")
        _, shown = await work_shown(worker)
    assert [words for _, words in shown] == ["What is a tree?", "A graph.", "And a trie?"]


async def test_who_is_refused_is_let_in_first_and_told_why(eve: ChatUser) -> None:
    for headers, refusal, code in (
        ({"X-Protocol-Version": "1"}, "wrong_api_key", 4401),
        ({"X-Protocol-Version": "1", "X-API-Key": "no"}, "wrong_api_key", 4401),
        ({"X-API-Key": KEY}, "upgrade_protocol", 4426),
        ({"X-API-Key": KEY, "X-Protocol-Version": "v2"}, "upgrade_protocol", 4426),
        ({"X-API-Key": "no", "X-Protocol-Version": "2"}, "upgrade_protocol", 4426),
    ):
        url = f"{eve.gateway.url}/workers/work"
        async with eve.gateway.client.ws_connect(url, headers=headers) as socket:
            assert (await socket.receive_json())["request_type"] == refusal, headers
            assert await HandDrivenWorker(socket).closed() == code, headers


async def test_a_worker_that_does_not_say_what_it_serves_is_sent_away(eve: ChatUser) -> None:
    firsts: list[Any] = [
        {"foo": 1, "hardware_info": "..."},
        {"config": {"model_config": {"model_id": "m"}}},
        worker_info(at_once=0),
        "no JSON",
        [],
    ]
    for first in firsts:
        url = f"{eve.gateway.url}/workers/work"
        async with eve.gateway.client.ws_connect(url, headers=HEADERS) as socket:
            worker = HandDrivenWorker(socket)
            await worker.send(first)
            assert await worker.closed() == 1008, first


async def test_bad_frames_cost_no_answer(eve: ChatUser) -> None:
    async with hand_driven_worker(eve.gateway) as worker:
        for bad in (
            "garbage",
            {"response_type": "no such type"},
            {"request_id": "unknown", "response_type": "token", "text": "x"},
            {"request_id": "unknown", "response_type": "generated_text", "text": "x"},
            {"request_id": "unknown", "response_type": "general_error", "error": "x"},
            {"response_type": "token", "text": 5},
            {"response_type": "pong", "metrics": "none"},
            [1],
        ):
            answer = await eve.asked()
            request = await worker.work()
            await worker.send(bad)
            await worker.say(request, "Hi")
            await worker.finish(request, "Hi")
            assert words(await eve.heard(answer)) == "Hi", bad


@pytest.mark.parametrize(
    "bad",
    [
        {"response_type": "token", "text": None},
        {"response_type": "no such type"},
        {"response_type": "error", "error": "the engine answered 500"},
        {"response_type": "general_error", "error": "out of memory"},
    ],
)
async def test_what_is_wrong_with_one_request_does_not_touch_its_neighbour(
    eve: ChatUser, bad: dict[str, Any]
) -> None:
    answers = [await eve.asked(), await eve.asked()]
    async with hand_driven_worker(eve.gateway, at_once=2) as worker:
        first, second = await worker.work(), await worker.work()
        for request in (first, second):
            await worker.say(request, "Hi")
        await worker.send(bad | {"request_id": first})
        await worker.finish(second, "Hi")
        assert (await eve.until(answers[0], "aborted_by_worker"))["content"] == "Hi"
        assert (await eve.until(answers[1], "complete"))["content"] == "Hi"


async def test_an_engine_error_before_the_first_word_is_tried_again(eve: ChatUser) -> None:
    answer = await eve.asked()
    async with hand_driven_worker(eve.gateway) as worker:
        first = await worker.work()
        await worker.fail(first, "the engine answered 500")
        second = await worker.work()
        assert first != second
        await worker.say(first, "late")
        await worker.finish(first, "late")
        await worker.say(second, "Hi")
        await worker.finish(second, "Hi")
        assert words(await eve.heard(answer)) == "Hi"


@pytest.mark.parametrize(
    ("said", "noted"), [("eos_token", "stop"), ("stop_sequence", "stop"), ("length", "length")]
)
async def test_why_an_answer_ended_is_noted(eve: ChatUser, said: str, noted: str) -> None:
    answer = await eve.asked()
    path = f"/v1/chats/{answer['chat_id']}/messages/{answer['id']}"
    async with hand_driven_worker(eve.gateway) as worker:
        await worker.finish(await worker.work(), "Hi", said)
        await eve.until(answer, "complete")
        assert (await eve.call("GET", path))[1]["finish_reason"] == noted
        if noted == "length":  # they would begin it anew, behind the words that there are
            status, refused = await eve.call("POST", f"{path}/continue", {"reply": "later"})
            assert status == 400 and refused["detail"][0]["loc"][-1] == "model"


async def test_a_defect_of_ours_before_a_job_is_handed_over_ends_that_answer_alone(
    eve: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter(["defect"])

    async def look_at(self: SafetyScreen, thread: Sequence[Message]) -> ScreenedQuestion:
        if next(asked, None) is not None:
            raise RuntimeError("a defect")
        return ScreenedQuestion(0)

    monkeypatch.setattr(SafetyScreen, "screen_thread", look_at)
    first, second = await eve.asked(), await eve.asked()
    async with hand_driven_worker(eve.gateway) as worker:
        await worker.finish(await worker.work(), "Hi")
        await eve.until(second, "complete")
        await eve.until(first, "aborted_by_worker")


async def test_a_deleted_chat_leaves_its_worker_at_work(eve: ChatUser) -> None:
    gone, kept = await eve.asked(), await eve.asked()
    async with hand_driven_worker(eve.gateway, at_once=2) as worker:
        first, second = await worker.work(), await worker.work()
        assert (await eve.call("DELETE", f"/chats/{gone['chat_id']}"))[0] == 200
        await worker.say(first, "who listens?")
        await worker.finish(first, "who listens?")
        await worker.finish(second, "Hi")
        await eve.until(kept, "complete")


async def test_a_worker_lost_before_its_first_word_costs_nothing(eve: ChatUser) -> None:
    answer = await eve.asked()
    listening = asyncio.create_task(eve.heard(answer))
    async with hand_driven_worker(eve.gateway) as worker:
        lost = await worker.work()
    async with hand_driven_worker(eve.gateway) as worker:
        request = await worker.work()
        assert request != lost
        await worker.finish(request, "Hi")
        assert (await listening)[-1]["message"]["id"] == answer["id"]


async def test_a_worker_lost_amid_its_words_ends_the_answer_which_keeps_them(eve: ChatUser) -> None:
    answer = await eve.asked()
    async with hand_driven_worker(eve.gateway) as worker:
        await worker.say(await worker.work(), "A radix")
        await eve.until(answer, "in_progress")
    heard = await eve.heard(answer)
    assert words(heard) == "A radix" and heard[-1]["error"] == "Aborted due to worker error."
    assert heard[-1]["message"]["content"] == "A radix"


async def test_two_jobs_of_a_dying_worker_are_both_given_to_the_next(eve: ChatUser) -> None:
    for _ in range(3):
        answers = [await eve.asked() for _ in range(2)]
        async with hand_driven_worker(eve.gateway, at_once=3) as worker:
            await worker.work()
            await worker.work()
        async with hand_driven_worker(eve.gateway, at_once=2) as worker:
            for _ in answers:
                await worker.finish(await worker.work(), "Hi")
            for answer in answers:
                await eve.until(answer, "complete")


@pytest.mark.parametrize("ends", ["leaves", "fails"])
async def test_the_neighbour_of_what_a_worker_leaves_for_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(chat=CHAT | {"attempts": 2}) as gateway:
        eve = await login(gateway, "eve")
        first = await eve.asked("first")
        for _ in range(2):  # as many as the attempts that an answer has
            async with hand_driven_worker(gateway, at_once=2) as worker:
                await worker.work()
                poisonous = await eve.asked("what it leaves for")
                request = await worker.work()
                if ends == "fails":
                    await worker.fail(request, "the engine answered 500")
            await eve.call("DELETE", f"/chats/{poisonous['chat_id']}")
        async with hand_driven_worker(gateway) as worker:
            await worker.finish(await worker.work(), "Hi")
            await eve.until(first, "complete")


async def test_a_job_that_ends_every_worker_has_an_end(eve: ChatUser) -> None:
    poisonous = await eve.asked("poisonous")
    for number in range(4):  # let off once, as the last that was handed over was its neighbour
        async with hand_driven_worker(eve.gateway, at_once=2) as worker:
            await worker.work()
            if not number:
                neighbour = await eve.asked("neighbour")
                await worker.say(await worker.work(), "Well")
                await eve.first_word(neighbour)
    assert (await eve.until(poisonous, "aborted_by_worker"))["content"] is None


async def test_who_has_answers_under_way_is_not_handed_what_another_left_for(eve: ChatUser) -> None:
    poisonous = await eve.asked("poisonous")
    async with hand_driven_worker(eve.gateway) as leaving:
        await leaving.work()
        strangers = await eve.asked("a stranger's")
        async with hand_driven_worker(eve.gateway, at_once=2) as busy:
            running, _ = await work_shown(busy)
            await busy.say(running, "A radix")
            await leaving.socket.close()
            await _attempt(eve.gateway, poisonous, 2)
            path = f"/v1/chats/{poisonous['chat_id']}/messages/{poisonous['id']}/stop"
            assert (await eve.call("POST", path))[0] == 200
            await eve.asked("later")
            _, shown = await work_shown(busy)
            assert shown == [("prompter", "later")]
            await busy.finish(running, "A radix tree.")
            await eve.until(strangers, "complete")


async def test_what_a_worker_left_for_is_alone_with_the_next_till_its_first_word(eve: ChatUser) -> None:
    poisonous = await eve.asked("poisonous")
    async with hand_driven_worker(eve.gateway) as leaving:
        await leaving.work()
    async with hand_driven_worker(eve.gateway, at_once=2) as worker:
        request = await worker.work()
        later = await eve.asked("later")
        for _ in range(20):
            assert (await eve.now(later))["state"] == "pending"
        await worker.say(request, "Well")
        assert (await work_shown(worker))[1] == [("prompter", "later")]
        await worker.finish(request, "Well.")
        await eve.until(poisonous, "complete")


async def _attempt(gateway: RunningGateway, answer: dict[str, Any], number: int) -> None:
    """Wait until it is somebody's for that time."""
    held = _room(gateway).answers._attempts
    async with asyncio.timeout(10):
        while number not in [e.job.attempts for e in held.values() if e.job.message_id == answer["id"]]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("times", [5, pytest.param(150, marks=pytest.mark.slow)])
async def test_no_job_is_lost_that_is_asked_for_as_its_worker_leaves(eve: ChatUser, times: int) -> None:
    for _ in range(times):
        async with hand_driven_worker(eve.gateway, at_once=2) as leaving:
            asking = asyncio.create_task(eve.asked())
            await leaving.socket.close()
            answer = await asking
        async with hand_driven_worker(eve.gateway) as worker:
            await worker.finish(await worker.work(), "Hi")
            await eve.until(answer, "complete")


async def test_a_worker_is_given_no_more_than_it_asked_for(eve: ChatUser) -> None:
    for _ in range(3):
        await eve.asked()
    async with hand_driven_worker(eve.gateway, at_once=2) as worker:
        first = await worker.work()
        await worker.work()
        _, (session,) = await _sessions(eve.gateway)
        assert session["requests_in_flight"] == 2
        await worker.finish(first, "Hi")
        await worker.work()


async def test_a_stopped_answer_is_told_only_to_workers_that_know_the_word(eve: ChatUser) -> None:
    answer = await eve.asked()
    async with hand_driven_worker(eve.gateway, extensions=["cancel"]) as worker:
        assert (await worker.frame())["extensions"] == ["cancel"]
        request = await worker.work()
        room = _room(eve.gateway)
        await room.answers.cancel_answer("eve", answer["id"])
        told = await worker.frame()
        assert (told["request_type"], told["request_id"]) == ("cancel", request)
        await eve.asked()
        await worker.work()
    async with hand_driven_worker(eve.gateway) as old:
        request = await old.work()
        again = await eve.asked()
        await room.answers.cancel_answer("eve", (await _in_progress(room))[0])
        await old.finish(request, "too late")
        assert (await old.frame())["request_type"] == "work"
        assert (await eve.now(again))["state"] == "in_progress"


async def _in_progress(room: ChatService) -> list[str]:
    return [held.job.message_id for held in room.answers._attempts.values()]


async def test_a_silent_worker_is_pinged_and_its_metrics_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(chat=CHAT | {"workers": {"ping_s": 0.05}}) as gateway:
        async with hand_driven_worker(gateway) as worker:
            ping = await worker.socket.receive_json()
            assert ping["request_type"] == "ping"
            metrics = {"created_at": "2026-01-01T00:00:00", "cpu_usage": 1.5, "gpus": None}
            await worker.send({"request_id": ping["id"], "response_type": "pong", "metrics": metrics})
            await worker.socket.receive_json()
            status, (session,) = await _sessions(gateway)
            assert status == 200 and session["metrics"]["cpu_usage"] == 1.5
            assert session["worker_info"]["config"] == worker_info()["config"]
            async with gateway.client.get(f"{gateway.url}/metrics", headers=PROMETHEUS) as response:
                assert 'inference_active_workers{model="m"} 1.0' in await response.text()
        async with asyncio.timeout(10):
            while (await _sessions(gateway))[1]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_a_worker_that_is_not_heard_of_any_more_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    patience = {"ping_s": 0.05, "inactivity_timeout_s": 0.3}
    async with running_gateway(chat=CHAT | {"workers": patience}) as gateway:
        eve = await login(gateway, "eve")
        answer = await eve.asked()
        async with hand_driven_worker(gateway) as silent:
            await silent.work()
            assert await silent.closed() == 1008
            await eve.until(answer, "pending")


def _room(gateway: RunningGateway) -> ChatService:
    chats = gateway.gateway.chats
    assert chats is not None and chats.service is not None
    return chats.service


async def _sessions(gateway: RunningGateway) -> tuple[int, list[dict[str, Any]]]:
    headers = {"Authorization": f"Bearer {_room(gateway).secrets.root_token}"}
    status, sessions = await gateway.get("/workers/sessions", headers=headers)
    return status, sessions


async def test_the_overviews_road_is_spoken_too(eve: ChatUser) -> None:
    url = f"{eve.gateway.url}/work?api_key={KEY}&protocol_version=v2"
    answer = await eve.asked()
    async with eve.gateway.client.ws_connect(url) as socket:
        worker = HandDrivenWorker(socket)
        await worker.send({"config": {"model_config_name": "m", "max_parallel_requests": 1}, "hardware": {}})
        registered = await worker.frame()
        assert registered["registered"] and registered["compat_hash"] == "m-2048-1024-f"
        work = await worker.frame()
        assert work["type"] == "WorkRequest" and work["parameters"]["model_config_name"] == "m"
        await worker.send({"type": "HeartbeatRequest", "metrics": {"memory_used": 5}})
        assert (await worker.frame())["type"] == "HeartbeatResponse"
        for token in ("Hi", " you"):
            await worker.send({"request_id": work["id"], "token": token, "is_end": False, "error": None})
        await worker.send({"request_id": work["id"], "token": "", "is_end": True})
        heard = await eve.heard(answer)
        assert words(heard) == heard[-1]["message"]["content"] == "Hi you"
        other = await eve.asked()
        work = await worker.frame()
        await worker.send({"request_id": work["id"], "token": "Hi", "is_end": False})
        await worker.send({"request_id": work["id"], "token": "", "is_end": True, "error": "no memory"})
        assert (await eve.heard(other))[-1]["error"] == "no memory"


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (f"api_key={KEY}", "upgrade_protocol"),
        ("api_key=no&protocol_version=v2", "wrong_api_key"),
        ("protocol_version=v2", "wrong_api_key"),
    ],
)
async def test_the_overviews_road_refuses_in_its_own_words(eve: ChatUser, query: str, error: str) -> None:
    async with eve.gateway.client.ws_connect(f"{eve.gateway.url}/work?{query}") as socket:
        refusal = await socket.receive_json()
        assert refusal["registered"] is False and refusal["error"] == error
        assert await HandDrivenWorker(socket).closed() in (4401, 4426)


async def test_a_websocket_where_none_is_spoken_is_refused(eve: ChatUser) -> None:
    for path in ("/v1/chat/completions", "/workers/sessions", "/chats"):
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await eve.gateway.client.ws_connect(eve.gateway.url + path, headers=HEADERS)
    assert await eve.gateway.get("/auth/providers") == (200, ["debug"])


async def test_an_answer_that_begins_anew_is_told_to_those_who_know_the_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(chat=CHAT | {"after_words": "restart"}) as gateway:
        eve = await login(gateway, "eve")
        answer = await eve.asked()
        knowing = asyncio.create_task(eve.heard(answer, **{"X-Radixway-Events": "restart"}))
        old = asyncio.create_task(eve.heard(answer))
        log = _room(gateway).answers._tokens
        async with hand_driven_worker(gateway) as worker:
            request = await worker.work()
            async with asyncio.timeout(10):
                while log._open_log(answer["id"]).listeners < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await worker.say(request, "A radix")
        async with hand_driven_worker(gateway) as worker:
            request = await worker.work()
            await worker.say(request, "A tree")
            await worker.finish(request, "A tree")
            heard, told = await knowing, await old
    kinds = [event["event_type"] for event in heard]
    assert kinds == ["token", "restart", "token", "message"], kinds
    assert words(heard[2:]) == heard[-1]["message"]["content"] == "A tree"
    assert [event["event_type"] for event in told] == ["token", "message"] and told[-1] == heard[-1]


async def test_what_the_real_worker_sends_is_understood(eve: ChatUser) -> None:
    """Recorded frames, with the ids of our requests."""
    lines = (Path(__file__).parents[2] / "data/oasst/ws_frames.jsonl").read_text().splitlines()
    info, pong, *frames = map(json.loads, lines)
    model = info["config"]["model_config"]["model_id"]
    ids = list(dict.fromkeys(frame["request_id"] for frame in frames))
    async with eve.gateway.client.ws_connect(f"{eve.gateway.url}/workers/work", headers=HEADERS) as socket:
        worker = HandDrivenWorker(socket)
        await worker.send(info)
        await worker.send(pong)
        async with asyncio.timeout(10):
            while not (await _sessions(eve.gateway))[1]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for recorded in ids:
            answer = await eve.asked(model=model)
            request = await worker.work()
            own = [frame for frame in frames if frame["request_id"] == recorded]
            for frame in own:
                await worker.send(frame | {"request_id": request})
            heard = await eve.heard(answer)
            assert words(heard) == "".join(f["text"] for f in own if f["response_type"] == "token")
            assert heard[-1]["message"]["content"] == own[-1]["text"]
            assert heard[-1]["message"]["used_plugin"] == own[-1]["used_plugin"]
            steps = [event for event in heard if event["event_type"] == "plugin_intermediate"]
            assert len(steps) == sum(f["response_type"] == "plugin_intermediate" for f in own)


async def test_the_gateways_own_workers_answer_while_nobody_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with scripted_worker(_pushed) as engine, running_gateway(engine.url, chat=CHAT) as gateway:
        eve = await login(gateway, "eve")
        assert words(await eve.heard(await eve.asked())) == "pushed"
        async with hand_driven_worker(gateway) as worker:
            async with asyncio.timeout(10):
                while not (await _sessions(gateway))[1]:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            fetched, left = await eve.asked(), await eve.asked()
            request = await worker.work()
            await worker.say(request, "pulled")
            await worker.finish(request, "pulled")
            assert words(await eve.heard(fetched)) == "pulled"
            await worker.work()
        assert words(await eve.heard(left)) == "pushed"


async def _pushed(exchange: Exchange) -> None:
    await exchange.reply(200, b'{"choices": [{"index": 0, "message": {"content": "pushed"}}]}')
