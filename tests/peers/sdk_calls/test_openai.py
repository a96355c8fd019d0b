"""Every call of OpenAI's SDK that asks a model for text, through the gateway."""

from __future__ import annotations

import json
from typing import Any

import openai
import pydantic
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SDK = "openai"
HELLO = [{"role": "user", "content": "Hello"}]
JOKE = [{"role": "user", "content": "Tell me a joke about cats."}]
PARIS = [{"role": "user", "content": "What is the temperature in Paris in celsius?"}]
ARGUMENTS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {"name": "get_current_weather", "parameters": ARGUMENTS, "strict": True},
}
FLAT_WEATHER = {"type": "function", "name": "get_current_weather", "parameters": ARGUMENTS, "strict": True}


class Joke(pydantic.BaseModel):
    setup: str
    punchline: str


@pytest.fixture
async def client(gateway: str):
    async with openai.AsyncOpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as client:
        yield client


async def chat(client: openai.AsyncOpenAI, **fields: Any) -> Any:
    asked: dict[str, Any] = {"model": MODEL, "messages": HELLO, "temperature": 0}
    return await client.chat.completions.create(**asked | fields)


@ported(SDK, "models.list")
async def test_models_are_listed(client: openai.AsyncOpenAI):
    models = [model async for model in client.models.list()]
    assert MODEL in [model.id for model in models]
    assert all(model.object == "model" and model.created and model.owned_by for model in models)


@ported(SDK, "models.retrieve")
async def test_a_model_is_retrieved(client: openai.AsyncOpenAI):
    assert (await client.models.retrieve(MODEL)).id == MODEL


@ported(SDK, "models.retrieve: NotFoundError")
async def test_no_unknown_model_is_retrieved(client: openai.AsyncOpenAI):
    with pytest.raises(openai.NotFoundError) as missing:
        await client.models.retrieve("nothing")
    assert missing.value.code is not None


@ported(SDK, "chat.completions.create")
async def test_a_chat(client: openai.AsyncOpenAI):
    answer = await chat(client)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@ported(SDK, "chat.completions.create(stream=True)")
async def test_a_chat_as_chunks(client: openai.AsyncOpenAI):
    stream = await chat(client, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].usage.total_tokens > 0


@ported(SDK, "chat.completions.create(n=2)")
async def test_two_choices(client: openai.AsyncOpenAI):
    assert [choice.index for choice in (await chat(client, n=2)).choices] == [0, 1]


@ported(SDK, "chat.completions.create(logprobs=True)")
async def test_logprobs(client: openai.AsyncOpenAI):
    content = (await chat(client, logprobs=True, top_logprobs=3)).choices[0].logprobs.content
    assert all(len(entry.top_logprobs) == 3 and entry.logprob <= 0 for entry in content)
    assert all(isinstance(entry.bytes, list) for entry in content)


@ported(SDK, "chat.completions.create(stop=…, max_completion_tokens=…)")
async def test_stops(client: openai.AsyncOpenAI):
    assert "," not in (await chat(client, stop=",")).choices[0].message.content
    cut = await chat(client, max_completion_tokens=3)
    assert cut.choices[0].finish_reason == "length"
    assert cut.usage.completion_tokens == 3


@ported(SDK, "chat.completions.create(response_format=json_schema)")
async def test_a_schema(client: openai.AsyncOpenAI):
    form = {"name": "joke", "schema": Joke.model_json_schema()}
    answer = await chat(client, messages=JOKE, response_format={"type": "json_schema", "json_schema": form})
    Joke.model_validate_json(answer.choices[0].message.content)


@ported(SDK, "chat.completions.create(response_format=json_object)")
async def test_some_json(client: openai.AsyncOpenAI):
    answer = await chat(client, messages=JOKE, response_format={"type": "json_object"})
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


@ported(SDK, "chat.completions.create(tools=…)")
async def test_a_tool(client: openai.AsyncOpenAI):
    answer = await chat(client, messages=PARIS, tools=[WEATHER])
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    call = choice.message.tool_calls[0]
    assert call.function.name == "get_current_weather"
    assert json.loads(call.function.arguments)["city"] == "Paris"
    result = {"role": "tool", "tool_call_id": call.id, "content": "mild"}
    turns = [*PARIS, choice.message.model_dump(exclude_none=True), result]
    assert (await chat(client, messages=turns, tools=[WEATHER])).choices[0].message.content


@ported(SDK, "chat.completions.create(tool_choice=…)")
@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "get_current_weather"}}]
)
async def test_a_tool_that_is_wanted(client: openai.AsyncOpenAI, choice: Any):
    answer = await chat(client, tools=[WEATHER], tool_choice=choice)
    assert answer.choices[0].message.tool_calls[0].function.name == "get_current_weather"


@ported(SDK, "chat.completions.create(tool_choice=allowed_tools)")
async def test_a_tool_of_those_allowed(client: openai.AsyncOpenAI):
    allowed = [{"type": "function", "function": {"name": "get_current_weather"}}]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": allowed}}
    answer = await chat(client, tools=[WEATHER], tool_choice=choice)
    assert answer.choices[0].message.tool_calls[0].function.name == "get_current_weather"


@ported(SDK, "chat.completions.create(seed=…, logit_bias=…, penalties)")
async def test_sampling(client: openai.AsyncOpenAI):
    fields = {"temperature": 1, "seed": 7, "logit_bias": {"5": -100}, "presence_penalty": 0.5}
    first, second = [await chat(client, **fields, frequency_penalty=0.5, top_p=0.9) for _ in range(2)]
    assert first.choices[0].message.content == second.choices[0].message.content


@ported(SDK, "chat.completions.create(metadata, user, store, service_tier, …)")
async def test_fields_about_the_request(client: openai.AsyncOpenAI):
    answer = await chat(
        client,
        metadata={"kind": "test"},
        user="somebody",
        store=False,
        service_tier="auto",
        parallel_tool_calls=True,
        tools=[WEATHER],
        prompt_cache_key="key",
        safety_identifier="somebody",
    )
    assert answer.choices[0].message is not None


@ported(SDK, "chat.completions.create(messages with developer, name and parts)")
async def test_messages_in_every_form(client: openai.AsyncOpenAI):
    turns = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "name": "ada", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]},
        {"role": "user", "content": "how are you"},
    ]
    assert (await chat(client, messages=turns)).choices[0].message.content


@ported(SDK, "chat.completions.stream")
async def test_a_chat_as_events(client: openai.AsyncOpenAI):
    async with client.chat.completions.stream(model=MODEL, messages=HELLO, temperature=0) as stream:
        kinds = [event.type async for event in stream]
        whole = await stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= {*kinds}
    assert whole.choices[0].message.content == (await chat(client)).choices[0].message.content


@ported(SDK, "chat.completions.stream(tools=…)")
async def test_a_call_as_events(client: openai.AsyncOpenAI):
    asked = {"model": MODEL, "messages": PARIS, "tools": [WEATHER], "temperature": 0}
    async with client.chat.completions.stream(**asked) as stream:
        kinds = [event.type async for event in stream]
        whole = await stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    assert whole.choices[0].message.tool_calls[0].function.parsed_arguments["city"] == "Paris"


@ported(SDK, "chat.completions.parse")
async def test_a_parsed_chat(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.parse(
        model=MODEL, messages=JOKE, response_format=Joke, temperature=0
    )
    assert isinstance(answer.choices[0].message.parsed, Joke)


@ported(SDK, "chat.completions.with_raw_response.create")
async def test_a_raw_response(client: openai.AsyncOpenAI):
    raw = await client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO)
    assert raw.http_response.status_code == 200
    assert raw.request_id, "the SDK reads it from x-request-id"
    assert raw.parse().choices[0].message.content


@ported(SDK, "chat.completions.with_streaming_response.create")
async def test_a_streaming_response(client: openai.AsyncOpenAI):
    asked = {"model": MODEL, "messages": HELLO}
    async with client.chat.completions.with_streaming_response.create(**asked) as response:
        assert (await response.parse()).choices[0].message.content


@ported(SDK, "chat.completions.create: BadRequestError names the field")
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"messages": []}, "messages"),
        ({"response_format": {"type": "xml"}}, "response_format"),
    ],
)
async def test_bad_input(client: openai.AsyncOpenAI, fields: dict[str, Any], param: str):
    with pytest.raises(openai.BadRequestError) as refused:
        await chat(client, **fields)
    assert (refused.value.param or "").startswith(param)


@ported(SDK, "completions.create")
async def test_a_completion(client: openai.AsyncOpenAI):
    answer = await client.completions.create(model=MODEL, prompt="The capital of France is", temperature=0)
    assert answer.object == "text_completion"
    assert "Paris" in answer.choices[0].text


@ported(SDK, "completions.create(stream=True)")
async def test_a_completion_as_chunks(client: openai.AsyncOpenAI):
    asked = {"model": MODEL, "prompt": "The capital of France is", "temperature": 0}
    whole = await client.completions.create(**asked)
    stream = await client.completions.create(**asked, stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == whole.choices[0].text


@ported(SDK, "completions.create(prompt=[…], echo, logprobs)")
async def test_completions_with_all_they_have(client: openai.AsyncOpenAI):
    for prompt in (["My name is", "Hello, my name is"], [[1, 2, 3], [4, 5]]):
        answer = await client.completions.create(
            model=MODEL, prompt=prompt, echo=True, logprobs=2, max_tokens=4, n=2
        )
        assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
        assert len(answer.choices[0].logprobs.tokens) == len(answer.choices[0].logprobs.text_offset)
        if isinstance(prompt[0], str):
            assert answer.choices[0].text.startswith(prompt[0])
