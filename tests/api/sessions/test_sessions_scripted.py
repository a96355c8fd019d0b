"""What no healthy engine does on cue: tool calls, aborts, routed experts, garbage; through real sockets."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

import radixway.bundled
from radixway.core.tokenizer import Tokenizer
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

TEMPLATES = Path(__file__).parents[2] / "data" / "chat_templates"
STOP = 2
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
QUESTION = {"role": "user", "content": "Weather in Bern?"}
CALLING = 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"city":"Bern"}}\n</tool_call>'


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled model's tokenizer with a template that knows tools."""
    directory = tmp_path_factory.mktemp("model") / "m"
    shutil.copytree(Path(radixway.bundled.__file__).parent / "guide", directory)
    shutil.copy(TEMPLATES / "qwen2_5.jinja", directory / "chat_template.jinja")
    return directory


class Model:
    """Answers what it is told to, one answer a request."""

    def __init__(self, directory: Path) -> None:
        self.tokenizer = Tokenizer.load(directory)
        self.answers: list[Any] = []
        self.bodies: list[dict[str, Any]] = []

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path != "/generate":
            await exchange.reply(200, b"{}")
            return
        body = exchange.json()
        self.bodies.append(body)
        answer = self.answers.pop(0)
        if isinstance(answer, bytes):
            await exchange.reply(200, answer)
            return
        text, finish, meta = answer
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        ids += [STOP] if finish["type"] == "stop" else []
        events = [self.reply(ids[:count], body, None, meta) for count in range(1, len(ids))]
        last = self.reply(ids, body, finish, meta)
        if not body["stream"]:
            await exchange.reply(200, json.dumps(last).encode())
            return
        await exchange.begin_stream()
        for event in (*events, last):
            await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    def reply(self, ids: list[int], body: dict[str, Any], finish: Any, meta: dict[str, Any]) -> dict:
        return {
            "text": self.tokenizer.decode(ids),
            "output_ids": ids,
            "meta_info": {
                "id": body["rid"],
                "finish_reason": finish,
                "prompt_tokens": len(body["input_ids"]),
                "completion_tokens": len(ids),
                "weight_version": "7",
                "output_token_logprobs": [[-0.5, token, None] for token in ids],
                **meta,
            },
        }


def says(text: str, kind: str = "stop", **meta: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    return text, {"type": kind}, meta


@asynccontextmanager
async def agents(model: Path, **sections: Any) -> AsyncIterator[tuple[RunningGateway, Model, ScriptedWorker]]:
    scripted = Model(model)
    trajectories = {"tokenizer": str(model), "abort": {"wait_s": 0}, **sections.pop("trajectories", {})}
    async with scripted_worker(scripted) as worker:
        async with running_gateway(worker.url, trajectories=trajectories, **sections) as gateway:
            yield gateway, scripted, worker


async def chat(gateway: RunningGateway, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": list(messages), **more}
    status, said, _ = await gateway.post("/sessions/s/v1/chat/completions", body)
    assert status == 200, said
    return said["choices"][0]["message"]


async def samples(gateway: RunningGateway) -> list[dict[str, Any]]:
    return (await gateway.get("/sessions/s/samples"))[1]["samples"]


async def test_a_tools_result_goes_on_from_the_call_as_the_model_wrote_it(model: Path) -> None:
    async with agents(model) as (gateway, scripted, _):
        scripted.answers = [says(CALLING), says("It rains.")]
        asked = await chat(gateway, QUESTION, tools=TOOLS)
        (call,) = asked["tool_calls"]
        assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (
            "weather",
            {"city": "Bern"},
        )
        call["function"]["arguments"] = '{ "city" : "Bern" }'  # as some agents write it again
        result = {"role": "tool", "tool_call_id": call["id"], "content": "rain"}
        assert (await chat(gateway, QUESTION, asked, result, tools=TOOLS))["content"] == "It rains."
        first, second = scripted.bodies
        sampled = [*scripted.tokenizer.encode(CALLING, add_special_tokens=False), STOP]
        known = first["input_ids"] + sampled
        assert second["input_ids"][: len(known)] == known
        (sample,) = await samples(gateway)
        assert sum(sample["loss_mask"]) == len(sampled) + 1 + len(
            scripted.tokenizer.encode("It rains.", add_special_tokens=False)
        )


async def test_what_an_agent_leaves_out_is_as_the_models_authors_recommend(
    model: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "m"
    shutil.copytree(model, directory)
    recommended = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_new_tokens": 9, "eos_token_id": STOP}
    (directory / "generation_config.json").write_text(json.dumps(recommended))
    async with agents(directory) as (gateway, scripted, _):
        scripted.answers = [says("Yes."), says("No.")]
        await chat(gateway, QUESTION)
        await chat(gateway, QUESTION, temperature=0, max_tokens=5)
        first, second = (body["sampling_params"] for body in scripted.bodies)
    assert first == {"max_new_tokens": None, "temperature": 0.6, "top_p": 0.95, "top_k": 20}
    assert second == {"max_new_tokens": 5, "temperature": 0, "top_p": 0.95, "top_k": 20}


async def test_a_forced_call_is_a_grammar_at_the_worker_and_outdoes_a_schema(model: Path) -> None:
    async with agents(model) as (gateway, scripted, _):
        scripted.answers = [says(CALLING.partition("\n")[2])]
        form = {"type": "json_object"}
        asked = await chat(gateway, QUESTION, tools=TOOLS, tool_choice="required", response_format=form)
        (body,) = scripted.bodies
    assert asked["tool_calls"][0]["function"]["name"] == "weather" and asked["content"] is None
    assert "weather" in body["sampling_params"]["ebnf"] and "json_schema" not in body["sampling_params"]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_a_worker_aborts_is_resumed_before_the_agent_sees_it(
    model: Path, stream: bool
) -> None:
    async with agents(model) as (gateway, scripted, _):
        scripted.answers = [says("It ", "abort"), says("rains.", weight_version="8")]
        body = {"model": "m", "messages": [QUESTION], "stream": stream, "max_tokens": 50}
        async with gateway.client.post(f"{gateway.url}/sessions/s/v1/chat/completions", json=body) as reply:
            assert reply.status == 200
            await reply.read()
        first, second = scripted.bodies
        half = scripted.tokenizer.encode("It ", add_special_tokens=False)
        assert second["input_ids"] == first["input_ids"] + half
        (sample,) = await samples(gateway)
        assert sample["finish_reason"] == "stop"
        versions = [span["version"] for span in sample["spans"] if span["source"] == "sampled"]
        assert versions == ["7", "8"]
        assert gateway.in_flight() == 0


async def test_routed_experts_are_kept_for_the_trainer_and_hidden_from_the_agent(model: Path) -> None:
    async with agents(model) as (gateway, scripted, _):
        raw = bytes(range(64))
        scripted.answers = [says("It rains.", routed_experts=b64encode(raw).decode())]
        body = {"model": "m", "messages": [QUESTION], "return_routed_experts": True}
        _, said, _ = await gateway.post("/sessions/s/v1/chat/completions", body)
        assert scripted.bodies[0]["return_routed_experts"] is True
        assert "routed_experts" not in json.dumps(said)
        (sample,) = await samples(gateway)
        (experts,) = sample["routed_experts"]
        assert b64decode(experts["data"]) == raw
        assert (experts["start"], experts["end"]) == (0, len(sample["tokens"]) - 1)


@pytest.mark.parametrize(
    "garbage",
    [
        b"not json",
        b"{}",
        b"[]",
        b'{"text": "x", "meta_info": {}}',
        b'{"text": "x", "output_ids": ["a"], "meta_info": {"finish_reason": {"type": "stop"}}}',
        b'{"text": "x", "output_ids": [4294967296], "meta_info": {"finish_reason": {"type": "stop"}}}',
        b'{"text": "x", "output_ids": [-1], "meta_info": {"finish_reason": {"type": "stop"}}}',
        b'{"text": 7, "output_ids": [5], "meta_info": {"finish_reason": "stop"}}',
    ],
)
async def test_a_worker_that_answers_garbage_costs_an_error_and_nothing_is_held(
    model: Path, garbage: bytes
) -> None:
    async with agents(model) as (gateway, scripted, _):
        for path in ("chat/completions", "messages"):
            scripted.answers = [garbage]
            body = {"model": "m", "messages": [QUESTION], "max_tokens": 5}
            status, said, _ = await gateway.post(f"/sessions/s/v1/{path}", body)
            assert status == 502 and said["error"]["message"].startswith(("the worker", "worker 127.0.0.1:"))
        keeper = gateway.gateway.sessions
        assert await samples(gateway) == []
        assert not keeper.book.find_session("s").turns
        keeper.book.store.clear()
        assert gateway.in_flight() == 0


async def test_scores_are_of_tokens_that_nobody_has_met_before(model: Path) -> None:
    async with agents(model) as (gateway, scripted, _):
        tops = [[[-0.5, 300, None], [-1.5, 301, None]]] * 3
        scripted.answers = [says("Hi", output_top_logprobs=tops)]
        body = {"model": "m", "messages": [QUESTION], "logprobs": True, "top_logprobs": 2}
        status, said, _ = await gateway.post("/sessions/s/v1/chat/completions", body)
        assert status == 200, said
        shown = said["choices"][0]["logprobs"]["content"]
        assert [row["token"] for row in shown] == ["H", "i", "<|im_end|>"]
        assert [len(row["top_logprobs"]) for row in shown] == [2, 2, 2]


@pytest.mark.parametrize(
    "meta",
    [
        {"output_top_logprobs": [[[None, None]]] * 3},
        {"output_top_logprobs": [[[1]]] * 3},
        {"output_top_logprobs": [[["x", "y"]]] * 3},
        {"output_token_logprobs": [[]] * 3},
        {"output_token_logprobs": [[-0.5, "a"]] * 3},
    ],
)
async def test_scores_that_are_garbage_are_the_workers_fault(model: Path, meta: dict[str, Any]) -> None:
    async with agents(model) as (gateway, scripted, _):
        scripted.answers = [says("Hi", **meta)]
        body = {"model": "m", "messages": [QUESTION], "logprobs": True, "top_logprobs": 2}
        status, said, _ = await gateway.post("/sessions/s/v1/chat/completions", body)
        assert (status, said["error"]["code"]) == (502, "worker_failed")
        assert gateway.gateway.sessions.book.store._tree.locked_size == 0


async def test_metadata_nested_too_deeply_is_refused_and_sessions_can_be_listed(model: Path) -> None:
    async with agents(model) as (gateway, _, _worker):
        metadata: dict[str, Any] = {}
        for _ in range(500):
            metadata = {"a": metadata}
        status, said, _ = await gateway.post("/sessions", {"session_id": "deep", "metadata": metadata})
        assert (status, said["error"]["param"]) == (400, "metadata")
        assert await gateway.get("/sessions") == (200, {"count": 0, "sessions": []})


@pytest.mark.parametrize("form", ["json", "jsonl"])
async def test_a_session_with_a_call_under_way_is_not_collected(model: Path, form: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        if exchange.path == "/generate":
            begun.set()
            await go_on.wait()
        await exchange.reply(200, b"{}")

    async with scripted_worker(slow) as worker:
        async with running_gateway(worker.url, trajectories={"tokenizer": str(model)}) as gateway:
            body = {"model": "m", "messages": [QUESTION]}
            call = asyncio.create_task(gateway.post("/sessions/s/v1/chat/completions", body))
            await begun.wait()
            await gateway.post("/sessions/s/finish", {})
            status, said = await gateway.get(f"/sessions/s/samples?collect=true&format={form}")
            assert (status, said["error"]["code"]) == (409, "session_busy")
            go_on.set()
            await call


async def test_a_session_whose_record_in_the_file_is_damaged_says_so(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    trajectories = {"tokenizer": str(model), "sessions": {"path": str(path)}}
    scripted = Model(model)
    scripted.answers = [says("Hi")]
    async with scripted_worker(scripted) as worker:
        async with running_gateway(worker.url, trajectories=trajectories) as gateway:
            await chat(gateway, QUESTION)
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE calls SET told = 'garbage'")
        async with running_gateway(worker.url, trajectories=trajectories) as gateway:
            status, said = await gateway.get("/sessions/s/samples")
            assert (status, said["error"]["code"]) == (503, "archive_failed")


async def test_a_session_is_the_first_tenants_that_calls_it_and_unknown_to_others(model: Path) -> None:
    tenants = {
        "acme": {"keys": [{"key": "a"}], "models": ["m"], "cache_salt": "s"},
        "rival": {"keys": [{"key": "r"}], "models": ["other"]},
        "ops": {"keys": [{"key": "o", "scopes": ["admin"]}]},
    }
    body = {"model": "m", "max_tokens": 5, "messages": [QUESTION]}
    path = "/sessions/s/v1/messages"
    async with agents(model, tenants=tenants) as (gateway, scripted, _):
        scripted.answers = [says("Rain."), says("Rain.")]
        asked = {"headers": {"x-api-key": "a"}}
        assert (await gateway.post("/sessions", {"session_id": "s"}, headers={"x-api-key": "o"}))[0] == 201
        assert (await gateway.post(path, body, **asked))[0] == 200
        for call in (path, f"{path}/count_tokens"):
            status, said, _ = await gateway.post(call, body, headers={"x-api-key": "r"})
            assert (status, said["error"]["type"]) == (404, "not_found_error")
        status, said, _ = await gateway.post("/sessions/own/v1/messages", body, headers={"x-api-key": "r"})
        assert (status, said["error"]["type"]) == (404, "not_found_error")
        assert (await gateway.post(path, body, **asked))[0] == 200
        _, session = await gateway.get("/sessions/s", headers={"x-api-key": "o"})
        _, used = await gateway.get("/usage?by=tenant", headers={"x-api-key": "o"})
    assert session["metadata"] == {"tenant": "acme"}
    assert [sent["extra_key"] for sent in scripted.bodies] == ["s", "s"]
    rows = {row["tenant"]: (row["requests"], row["completion_tokens"]) for row in used["usage"]}
    answered = 2 * len(scripted.tokenizer.encode("Rain.", add_special_tokens=False)) + 2
    assert rows == {"acme": (2, answered)}


SEEING = """{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'image' %}[picture]{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
CAT, DOG = "data:image/png;base64,Y2F0", "https://example.org/dog.png"
TEXT = {"type": "text", "text": "What is this?"}
PNG = {"type": "base64", "media_type": "image/png", "data": "Y2F0"}
CLAUDE_IMAGES = [
    {"type": "image", "source": PNG},
    {"type": "image", "source": {"type": "url", "url": DOG}},
    TEXT,
]
RESPONSE_IMAGES = [
    {"type": "input_image", "image_url": CAT},
    {"type": "input_image", "image_url": DOG},
    {"type": "input_text", "text": "What is this?"},
]


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled model's tokenizer with a template that shows images."""
    directory = tmp_path_factory.mktemp("seeing") / "m"
    shutil.copytree(Path(radixway.bundled.__file__).parent / "guide", directory)
    (directory / "chat_template.jinja").write_text(SEEING)
    return directory


def shown(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


async def test_images_go_to_the_worker_and_stay_in_the_conversation(seeing: Path) -> None:
    async with agents(seeing) as (gateway, scripted, _):
        scripted.answers = [says("A cat."), says("A dog."), says("Both.")]
        question = {"role": "user", "content": [shown(CAT), TEXT]}
        answer = await chat(gateway, question)
        await chat(gateway, question, answer, {"role": "user", "content": [TEXT, shown(DOG)]})
        await chat(gateway, question, answer, {"role": "user", "content": "And now?"})
        first, both, again = scripted.bodies
        assert (first["image_data"], both["image_data"], again["image_data"]) == ([CAT], [CAT, DOG], [CAT])
        text = scripted.tokenizer.decode(both["input_ids"], skip_special_tokens=False)
        assert text.index("[picture]What is this?") < text.index("What is this?[picture]")
        assert both["input_ids"][: len(first["input_ids"])] == first["input_ids"]
        sample, _ = await samples(gateway)
        assert sample["messages"][0] == question
        assert any("images" in each for each in sample["deviations"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": CLAUDE_IMAGES}]}),
        ("v1/responses", {"input": [{"role": "user", "content": RESPONSE_IMAGES}]}),
    ],
)
async def test_images_of_other_protocols_go_to_the_worker(
    seeing: Path, path: str, body: dict[str, Any]
) -> None:
    async with agents(seeing) as (gateway, scripted, _):
        scripted.answers = [says("A cat.")]
        status, said, _ = await gateway.post(f"/sessions/s/{path}", {"model": "m", **body})
        assert status == 200, said
        (asked,) = scripted.bodies
        assert asked["image_data"] == [CAT, DOG]
        text = scripted.tokenizer.decode(asked["input_ids"], skip_special_tokens=False)
        assert "[picture][picture]What is this?" in text


async def test_a_tools_result_may_be_an_image(seeing: Path) -> None:
    async with agents(seeing) as (gateway, scripted, _):
        scripted.answers = [says("A cat.")]
        use = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": CLAUDE_IMAGES[:1]}
        turns = [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]
        body = {"model": "m", "max_tokens": 9, "messages": turns}
        status, said, _ = await gateway.post("/sessions/s/v1/messages", body)
        assert status == 200, said
        assert scripted.bodies[0]["image_data"] == [CAT]


@pytest.mark.parametrize("url", ["/etc/passwd", "file:///etc/passwd", "", None, "data:text/html,x"])
async def test_an_image_is_no_file_of_the_worker(seeing: Path, url: Any) -> None:
    async with agents(seeing) as (gateway, scripted, _):
        body = {"model": "m", "messages": [{"role": "user", "content": [shown(url)]}]}
        status, said, _ = await gateway.post("/sessions/s/v1/chat/completions", body)
        assert (status, said["error"]["param"]) == (400, "messages[0].content[0].image_url.url")
        assert scripted.bodies == []


async def test_a_model_that_reads_text_alone_refuses_images(model: Path) -> None:
    async with agents(model) as (gateway, scripted, _):
        body = {"model": "m", "messages": [{"role": "user", "content": [shown(CAT)]}]}
        status, said, _ = await gateway.post("/sessions/s/v1/chat/completions", body)
        assert (status, said["error"]["param"]) == (400, "messages[0].content[0].type")
        assert scripted.bodies == []


async def test_images_count_towards_the_memory_of_sessions(seeing: Path) -> None:
    async with agents(seeing, trajectories={"max_bytes": 150_000}) as (gateway, scripted, _):
        scripted.answers = [says("A cat."), says("A cat."), says("A cat.")]
        messages = [{"role": "user", "content": [shown(CAT + "A" * 100_000), TEXT]}]
        body = {"model": "m", "messages": messages}
        first, _, _ = await gateway.post("/sessions/one/v1/chat/completions", body)
        full, said, _ = await gateway.post("/sessions/two/v1/chat/completions", body)
        assert (first, full, said["error"]["code"]) == (200, 429, "store_full")
        async with gateway.client.delete(f"{gateway.url}/sessions/one") as response:
            assert response.status == 200
        assert (await gateway.post("/sessions/two/v1/chat/completions", body))[0] == 200
