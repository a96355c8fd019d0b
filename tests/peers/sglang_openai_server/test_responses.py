"""SGLang's cases of `/v1/responses`, with function tools and without."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
BASIC = "test/registered/openai_server/basic/test_openai_server.py"
TOOLS = "test/registered/openai_server/function_call/test_responses_function_calling.py"
ASKED = {
    "model": MODEL,
    "input": "The capital of France is",
    "temperature": 0,
    "top_p": 1.0,
    "store": True,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "truncation": "disabled",
}
SYSTEM = "Call the functions that are given where they help, else answer."


def tool(name: str, argument: str, **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "name": name, "description": name, "parameters": schema} | fields


WEATHER = tool("get_weather", "location")


@ported(BASIC, "TestOpenAIServerv1Responses.test_response")
async def test_a_response(client: openai.AsyncOpenAI):
    response = await client.responses.create(**ASKED, max_output_tokens=32)
    assert response.id
    assert response.object == "response"
    assert response.created_at
    assert isinstance(response.model, str)
    assert isinstance(response.output, list)
    assert response.status in ("completed", "in_progress", "queued", "failed", "cancelled")
    if response.status == "completed":
        assert response.usage is not None
        assert response.usage.prompt_tokens >= 0
        assert response.usage.completion_tokens >= 0
        assert response.usage.total_tokens >= 0
    assert response.error is None
    assert response.incomplete_details is None


@ported(BASIC, "TestOpenAIServerv1Responses.test_response_completion")
async def test_a_short_response(client: openai.AsyncOpenAI):
    response = await client.responses.create(**ASKED, max_output_tokens=16)
    assert response.status in ("completed", "in_progress", "queued")
    if response.status == "completed":
        assert response.usage is not None
        assert response.usage.total_tokens >= 0


async def streams(client: openai.AsyncOpenAI, max_output_tokens: int) -> None:
    kinds: list[str] = []
    async with client.responses.stream(**ASKED, max_output_tokens=max_output_tokens) as stream:
        async for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                assert isinstance(event.delta, str)
        await stream.get_final_response()
    assert {"response.created", "response.in_progress", "response.completed"} <= {*kinds}


@ported(BASIC, "TestOpenAIServerv1Responses.test_response_stream")
async def test_a_streamed_response(client: openai.AsyncOpenAI):
    await streams(client, 32)


@ported(BASIC, "TestOpenAIServerv1Responses.test_response_completion_stream")
async def test_a_short_streamed_response(client: openai.AsyncOpenAI):
    await streams(client, 16)


@ported(BASIC, "TestOpenAIServerv1Responses.test_error")
async def test_an_unknown_response_is_not_gone_on_with(http: httpx.AsyncClient):
    asked = {"model": MODEL, "input": "Hi", "previous_response_id": "bad"}
    response = await http.post("/v1/responses", json=asked)
    assert response.status_code == 400
    assert {"message", "type", "code"} <= response.json()["error"].keys()


@ported(BASIC, "TestOpenAIServerv1Responses.test_invalid_tools_error")
async def test_an_unknown_kind_of_tool(http: httpx.AsyncClient):
    asked = {"model": MODEL, "input": "Hi", "tools": [{"type": "some_invalid_tool_type"}]}
    response = await http.post("/v1/responses", json=asked)
    assert response.status_code == 400
    error = response.json()["error"]
    assert "Input should be 'web_search_preview' or 'code_interpreter'" in error["message"]
    assert {"type", "code"} <= error.keys()


@ported(BASIC, "TestOpenAIServerv1Responses.test_penalty")
async def test_a_penalty(http: httpx.AsyncClient):
    asked = {
        "model": MODEL,
        "input": "Introduce the capital of France.",
        "temperature": 0,
        "max_output_tokens": 32,
        "frequency_penalty": 1.0,
    }
    response = await http.post("/v1/responses", json=asked)
    assert response.status_code == 200
    body = response.json()
    assert body["object"] == "response"
    assert {"output", "status"} <= body.keys()
    if "usage" in body:
        assert {"prompt_tokens", "total_tokens"} <= body["usage"].keys()


async def ask(client: openai.AsyncOpenAI, question: str, tools: list[Any], **fields: Any) -> Any:
    return await client.responses.create(
        model=MODEL, input=f"{SYSTEM}\nUser: {question}", tools=tools, **fields
    )


@pytest.mark.parametrize(
    ("question", "tools"),
    [
        pytest.param("Hello, how are you?", [WEATHER], id="test_function_tool_schema_validation"),
        pytest.param("What's the weather in Paris?", [WEATHER], id="test_function_tool_non_streaming"),
        pytest.param(
            "What's the weather in Berlin?",
            [WEATHER, tool("get_time", "timezone")],
            id="test_multiple_function_tools",
        ),
        pytest.param("Hello!", [WEATHER], id="test_builtin_and_function_tools_mixed"),
        pytest.param(
            "Calculate 2+2",
            [tool("calculate", "expression", strict=True)],
            id="test_function_tool_with_strict_mode",
        ),
    ],
)
@ported(TOOLS, "TestResponsesFunctionCalling")
async def test_a_response_with_tools(client: openai.AsyncOpenAI, question: str, tools: list[Any]):
    response = await ask(client, question, tools)
    assert response.id is not None
    assert response.output is not None
    assert response.status == "completed"


@ported(TOOLS, "TestResponsesFunctionCalling.test_function_tool_streaming")
async def test_a_streamed_response_with_tools(client: openai.AsyncOpenAI):
    stream = await ask(client, "What's the weather in Tokyo?", [WEATHER], stream=True)
    assert [event.type async for event in stream]


@ported(TOOLS, "TestResponsesFunctionCalling.test_tool_choice_none")
async def test_no_call_where_none_is_wanted(client: openai.AsyncOpenAI):
    response = await ask(client, "What's the weather in London?", [WEATHER], tool_choice="none")
    assert not [item for item in response.output if item.type == "function_call"]
