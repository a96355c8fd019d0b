"""Agents with their own SDKs, through sessions, against a real engine with the bundled model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import openai
import pytest

from support.engine_process import engine_process
from support.running_gateway import RunningGateway, running_gateway

MODEL = "radixway-guide"
QUESTION = {"role": "user", "content": "What is a radix tree?"}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Bern", "Rome"]}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
NEXT = {"role": "user", "content": "And what is it for?"}
GREEDY = {"model": MODEL, "temperature": 0, "max_tokens": 40}
CLAUDE = {"model": MODEL, "max_tokens": 40, "extra_body": {"temperature": 0}}
LONG = {"temperature": 1, "max_tokens": 3000, "extra_body": {"ignore_eos": True}}


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with engine_process() as (url, _):
        yield url


@pytest.fixture
async def gateway(engine: str) -> AsyncIterator[RunningGateway]:
    async with running_gateway(engine) as gateway:
        yield gateway
        while _OPENED:
            await _OPENED.pop().close()


_OPENED: list[Any] = []
"""Clients, to be closed while the loop runs."""


def openai_sdk(gateway: RunningGateway, session: str) -> openai.AsyncOpenAI:
    url = f"{gateway.url}/sessions/{session}/v1"
    _OPENED.append(openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0))
    return _OPENED[-1]


def anthropic_sdk(gateway: RunningGateway, session: str) -> anthropic.AsyncAnthropic:
    url = f"{gateway.url}/sessions/{session}"
    _OPENED.append(anthropic.AsyncAnthropic(base_url=url, api_key="unused", max_retries=0))
    return _OPENED[-1]


async def samples_of(gateway: RunningGateway, session: str, query: str = "") -> list[dict[str, Any]]:
    status, told = await gateway.get(f"/sessions/{session}/samples{query}")
    assert status == 200, told
    return told["samples"]


async def ask(agent: openai.AsyncOpenAI, *messages: dict[str, Any], **more: Any) -> Any:
    return await agent.chat.completions.create(messages=list(messages), **{**GREEDY, **more})


def answered(reply: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": reply.choices[0].message.content}


async def test_the_second_turn_goes_on_from_the_tokens_of_the_first(gateway: RunningGateway) -> None:
    agent = openai_sdk(gateway, "s1")
    first = await ask(agent, QUESTION, extra_body={"return_token_ids": True})
    second = await ask(agent, QUESTION, answered(first), NEXT, extra_body={"return_token_ids": True})
    (sample,) = await samples_of(gateway, "s1")
    one, two = sample["calls"]
    assert two["start"] == one["end"]
    assert sample["tokens"][one["sampled_at"] : one["end"]] == first.choices[0].token_ids
    assert sample["tokens"][two["sampled_at"] :] == second.choices[0].token_ids
    assert sample["tokens"][: two["sampled_at"]] == second.prompt_token_ids
    assert sum(sample["loss_mask"]) == first.usage.completion_tokens + second.usage.completion_tokens
    assert [message.get("content") for message in sample["messages"]] == [
        QUESTION["content"],
        answered(first)["content"],
        NEXT["content"],
        answered(second)["content"],
    ]
    assert sample["exact"]
    assert sample["deviations"] == []


async def test_what_a_sample_says_is_what_the_engine_says_of_the_same_prompt(
    gateway: RunningGateway,
) -> None:
    agent = openai_sdk(gateway, "record")
    await ask(agent, QUESTION)
    (sample,) = await samples_of(gateway, "record")
    start = sample["calls"][0]["sampled_at"]
    body = {
        "input_ids": sample["tokens"][:start],
        "sampling_params": {"temperature": 0, "max_new_tokens": 40},
        "return_logprob": True,
    }
    _, said, _ = await gateway.post("/generate", body)
    assert sample["tokens"][start:] == said["output_ids"]
    told = [row[0] for row in said["meta_info"]["output_token_logprobs"]]
    assert sample["logprobs"][start:] == pytest.approx(told, abs=1e-4)
    assert set(sample["versions"][start:]) == {said["meta_info"]["weight_version"]}
    assert set(sample["versions"][:start]) == {None}


async def test_an_edited_history_makes_a_branch_and_what_both_share_is_trained_once(
    gateway: RunningGateway,
) -> None:
    agent = openai_sdk(gateway, "fork")
    first = answered(await ask(agent, QUESTION))
    await ask(agent, QUESTION, first, NEXT)
    await ask(agent, QUESTION, first, {"role": "user", "content": "Who made it?"})
    await ask(agent, QUESTION, {**first, "content": "It is a tree."}, NEXT)
    samples = await samples_of(gateway, "fork")
    assert [len(sample["calls"]) for sample in samples] == [2, 2, 1]
    shared = [sample["calls"][0] for sample in samples[:2]]
    assert [part["id"] for part in shared] == [shared[0]["id"]] * 2
    assert [part["trained"] for part in shared] == [True, False]
    masked = slice(shared[0]["sampled_at"], shared[0]["end"])
    assert set(samples[0]["loss_mask"][masked]) == {1}
    assert set(samples[1]["loss_mask"][masked]) == {0}


async def test_a_retried_turn_is_a_sibling(gateway: RunningGateway) -> None:
    agent = openai_sdk(gateway, "retry")
    first = answered(await ask(agent, QUESTION))
    for seed in (1, 2):
        await ask(agent, QUESTION, first, NEXT, temperature=1, seed=seed)
    _, told = await gateway.get("/sessions/retry")
    root, *others = told["tree"]
    assert [call["parent"] for call in others] == [root["id"]] * 2


async def test_streams_of_every_protocol_add_up_to_what_is_kept(gateway: RunningGateway) -> None:
    agent, claude = openai_sdk(gateway, "streams"), anthropic_sdk(gateway, "streams")
    chat = await agent.chat.completions.create(
        messages=[QUESTION], stream=True, stream_options={"include_usage": True}, **GREEDY
    )
    chunks = [chunk async for chunk in chat]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    async with agent.responses.stream(
        model=MODEL, input="What is a radix tree?", temperature=0, max_output_tokens=40
    ) as events:
        response = await events.get_final_response()
    async with claude.messages.stream(messages=[QUESTION], **CLAUDE) as events:
        message = await events.get_final_message()
    completion = await agent.completions.create(prompt="A radix tree", stream=True, **GREEDY)
    plain = "".join([chunk.choices[0].text async for chunk in completion])
    assert text == response.output_text == message.content[0].text
    samples = await samples_of(gateway, "streams")
    assert [sample["messages"][-1]["content"] for sample in samples] == [text, text, text, plain]
    counts = [chunks[-1].usage.completion_tokens, response.usage.output_tokens, message.usage.output_tokens]
    assert [sum(sample["loss_mask"]) for sample in samples[:3]] == counts


async def test_a_response_goes_on_from_the_one_it_names(gateway: RunningGateway) -> None:
    agent = openai_sdk(gateway, "responses")
    sampling = {"model": MODEL, "temperature": 0, "max_output_tokens": 40}
    first = await agent.responses.create(input="What is a radix tree?", **sampling)
    second = await agent.responses.create(
        input="And what is it for?", previous_response_id=first.id, **sampling
    )
    other = await agent.responses.create(input="Who made it?", previous_response_id=first.id, **sampling)
    assert second.output_text
    assert other.output_text
    _, told = await gateway.get("/sessions/responses")
    root, *others = told["tree"]
    assert [call["parent"] for call in others] == [root["id"]] * 2
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        await agent.responses.create(input="x", previous_response_id="resp_unknown", **sampling)


async def test_an_agent_of_anthropics_goes_on_and_counts_the_tokens_of_its_own_history(
    gateway: RunningGateway,
) -> None:
    claude = anthropic_sdk(gateway, "claude")
    system = "Answer in one sentence."
    first = await claude.messages.create(messages=[QUESTION], system=system, **CLAUDE)
    turns = [QUESTION, {"role": "assistant", "content": first.content}, NEXT]
    counted = await claude.messages.count_tokens(model=MODEL, messages=turns, system=system)
    second = await claude.messages.create(messages=turns, system=system, **CLAUDE)
    usage = second.usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    (sample,) = await samples_of(gateway, "claude")
    assert [part["start"] for part in sample["calls"]] == [0, sample["calls"][0]["end"]]


async def test_a_completion_goes_on_from_its_own_text(gateway: RunningGateway) -> None:
    agent = openai_sdk(gateway, "plain")
    prompt = "<|im_start|>user\nWhat is a radix tree?<|im_end|>\n<|im_start|>assistant\n"
    first = await agent.completions.create(prompt=prompt, **{**GREEDY, "max_tokens": 200})
    assert first.choices[0].finish_reason == "stop"
    further = "<|im_end|>\n<|im_start|>user\nAnd what is it for?<|im_end|>\n<|im_start|>assistant\n"
    await agent.completions.create(prompt=prompt + first.choices[0].text + further, **GREEDY)
    (sample,) = await samples_of(gateway, "plain")
    one, two = sample["calls"]
    assert two["start"] == one["end"]
    stop = 2
    assert sample["tokens"][one["end"] - 1] == stop
    assert sample["tokens"][one["end"]] != stop, "the stop token that was sampled is there a second time"


async def test_an_answer_without_a_limit_is_as_long_as_the_model_wants(gateway: RunningGateway) -> None:
    agent = openai_sdk(gateway, "long")
    reply = await agent.chat.completions.create(
        model=MODEL, messages=[QUESTION], temperature=1, extra_body={"regex": "(ab ){150}"}
    )
    assert reply.usage.completion_tokens > 128


async def test_a_client_that_leaves_leaves_an_unfinished_call(gateway: RunningGateway) -> None:
    agent = openai_sdk(gateway, "leaver")
    stream = await agent.chat.completions.create(model=MODEL, messages=[QUESTION], stream=True, **LONG)
    heard = ""
    async for chunk in stream:
        heard += chunk.choices[0].delta.content or ""
        if len(heard) > 40:
            break
    await stream.close()
    session = gateway.gateway.sessions.book.find_session("leaver")
    while session.turns or gateway.in_flight():
        await gateway.get("/health")
    (sample,) = await samples_of(gateway, "leaver")
    assert sample["finish_reason"] == "abort"
    assert sample["messages"][-1]["content"].startswith(heard)
    assert sum(sample["loss_mask"]) > 0
    session.check()
    gateway.gateway.sessions.book.store.check()


async def test_an_answer_cut_short_is_gone_on_with_token_by_token(gateway: RunningGateway) -> None:
    claude = anthropic_sdk(gateway, "partial")
    whole = await claude.messages.create(messages=[QUESTION], **{**CLAUDE, "max_tokens": 30})
    first = await claude.messages.create(messages=[QUESTION], **{**CLAUDE, "max_tokens": 8})
    assert first.stop_reason == "max_tokens"
    turns = [QUESTION, {"role": "assistant", "content": first.content[0].text}]
    more = await claude.messages.create(messages=turns, **{**CLAUDE, "max_tokens": 22})
    assert first.content[0].text + more.content[0].text == whole.content[0].text
    _, sample = await samples_of(gateway, "partial")
    assert [part["start"] for part in sample["calls"]] == [0, sample["calls"][0]["end"]]
    assert sample["messages"][-1]["content"] == whole.content[0].text


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_forced_call_comes_back_with_arguments_of_its_schema(
    gateway: RunningGateway, stream: bool, choice: Any
) -> None:
    session = f"forced-{stream}-{isinstance(choice, str)}"
    agent = openai_sdk(gateway, session)
    asked = {"tools": [WEATHER], "tool_choice": choice, "parallel_tool_calls": False, "max_tokens": 200}
    if stream:
        async with agent.chat.completions.stream(messages=[QUESTION], **GREEDY | asked) as events:
            reply = await events.get_final_completion()
    else:
        reply = await ask(agent, QUESTION, **asked)
    (choice,) = reply.choices
    (call,) = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content or None, call.function.name) == (
        "tool_calls",
        None,
        "weather",
    )
    arguments = json.loads(call.function.arguments)
    assert set(arguments) <= {"city", "days"} and arguments["city"] in ("Bern", "Rome")

    turn = {"role": "assistant", "tool_calls": [call.to_dict()]}
    result = {"role": "tool", "tool_call_id": call.id, "content": "20 °C"}
    await ask(agent, QUESTION, turn, result, tools=[WEATHER], max_tokens=5)
    (sample,) = await samples_of(gateway, session)
    assert len(sample["calls"]) == 2 and sample["exact"]


async def test_an_agent_of_anthropics_forces_a_call(gateway: RunningGateway) -> None:
    tool: Any = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
    message = await anthropic_sdk(gateway, "forced-claude").messages.create(
        messages=[QUESTION], tools=[tool], tool_choice={"type": "any"}, **CLAUDE | {"max_tokens": 200}
    )
    assert message.stop_reason == "tool_use"
    assert all(block.input["city"] in ("Bern", "Rome") for block in message.content)


async def test_mistakes_get_an_error_in_the_words_of_the_protocol(gateway: RunningGateway) -> None:
    agent, claude = openai_sdk(gateway, "wrong"), anthropic_sdk(gateway, "wrong")
    with pytest.raises(openai.BadRequestError, match="content") as openais:
        await ask(agent, {"role": "user", "content": [{"type": "image_url"}]})
    assert openais.value.body["param"].startswith("messages[0]")
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        await claude.messages.create(model=MODEL, messages=[QUESTION], max_tokens=0)
    with pytest.raises(openai.NotFoundError, match="no worker serves"):
        await ask(agent, QUESTION, model="other")
    with pytest.raises(openai.BadRequestError, match="context"):
        await ask(agent, {"role": "user", "content": "word " * 5000})
    with pytest.raises(openai.BadRequestError, match="regex"):
        more = {"tool_choice": "required", "extra_body": {"regex": "a"}}
        await ask(agent, QUESTION, tools=[WEATHER], **more)
    with pytest.raises(openai.BadRequestError, match="tool_choice"):
        await ask(agent, QUESTION, tool_choice="required")
    with pytest.raises(anthropic.BadRequestError, match=r"messages\[0\].content\[0\]"):
        image: Any = {"role": "user", "content": [{"type": "image"}]}
        await claude.messages.create(model=MODEL, messages=[image], max_tokens=5)
    assert await samples_of(gateway, "wrong") == []
    status, _ = await gateway.get("/sessions/unknown/samples")
    assert status == 404
    status, said, _ = await gateway.post("/sessions/.bad/v1/messages", {"model": MODEL})
    assert (status, said["type"]) == (400, "error")


async def test_rewards_are_told_with_the_samples(gateway: RunningGateway) -> None:
    agent = openai_sdk(gateway, "rewarded")
    reply = await ask(agent, QUESTION)
    await ask(agent, NEXT)
    await gateway.post("/sessions/rewarded/reward", {"reward": 0.5})
    await gateway.post("/sessions/rewarded/reward", {"reward": 2, "call": reply.id})
    samples = await samples_of(gateway, "rewarded")
    assert [sample["reward"] for sample in samples] == [2, 0.5]
    status, _, _ = await gateway.post("/sessions/rewarded/reward", {"reward": "good"})
    assert status == 400


@pytest.mark.slow
async def test_finished_sessions_are_exported_and_let_go_of_once_collected(gateway: RunningGateway) -> None:
    import pyarrow

    for name in ("one", "two"):
        await ask(openai_sdk(gateway, name), QUESTION)
        await gateway.post(f"/sessions/{name}/finish", {})
    with pytest.raises(openai.ConflictError, match="finished"):
        await ask(openai_sdk(gateway, "one"), QUESTION)
    async with gateway.client.get(f"{gateway.url}/samples?format=jsonl") as response:
        lines = [json.loads(line) for line in (await response.read()).splitlines()]
    assert [line["session_id"] for line in lines] == ["one", "two"]
    async with gateway.client.get(f"{gateway.url}/samples?format=arrow&collect=true") as response:
        table = pyarrow.ipc.open_stream(await response.read()).read_all()
    rows = table.to_pylist()
    for name in ("tokens", "loss_mask", "logprobs", "versions"):
        assert [row[name] for row in rows] == [line[name] for line in lines]
    assert [json.loads(row["messages"]) for row in rows] == [line["messages"] for line in lines]
    status, said = await gateway.get("/sessions/one/samples")
    assert (status, said["error"]["code"]) == (410, "session_collected")
    store = gateway.gateway.sessions.book.store
    store.check()
    store.clear()  # nothing is held any more
