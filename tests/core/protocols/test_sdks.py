"""OpenAI's and Anthropic's own client libraries against a server that speaks through the wires."""

from __future__ import annotations

import asyncio
import json

import anthropic
import openai
import pytest

from radixway.core.http import HttpError
from support.scripted_model import Script, scripted_model

THINKING = "She wants the weather, 1 < 2."
TEXT = "Let me see."
CALL = '{"city": "Paris", "days": [1, 2]}'
SAID = (
    f"<think>\n{THINKING}\n</think>\n\n{TEXT}\n"
    f'<tool_call>\n{{"name": "weather", "arguments": {CALL}}}\n</tool_call>\n'
    '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CHAT_TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "d", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "clock"}},
]
FLAT_TOOLS = [
    {"type": "function", "name": "weather", "description": "d", "parameters": SCHEMA, "strict": None},
    {"type": "function", "name": "clock", "parameters": None, "strict": None},
]
ANTHROPIC_TOOLS = [
    {"name": "weather", "description": "d", "input_schema": SCHEMA},
    {"name": "clock", "input_schema": {"type": "object"}},
]


def called() -> Script:
    return Script([SAID[at : at + 3] for at in range(0, len(SAID), 3)])


def openai_sdk(model) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="unused", max_retries=0)


def anthropic_sdk(model) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=model.url, api_key="unused", max_retries=0)


def without_ids(value):
    """Ids of calls are made anew for each answer; what streams' helpers parse is theirs."""
    if isinstance(value, dict):
        left_out = ("id", "call_id", "parsed", "parsed_arguments")
        return {name: without_ids(item) for name, item in value.items() if name not in left_out}
    return [without_ids(item) for item in value] if isinstance(value, list) else value


async def test_a_chat_with_tools_goes_round_whole_and_streamed():
    question = {"role": "user", "content": "What is the weather?"}
    async with scripted_model(called(), called(), Script(["Sunny."])) as model, openai_sdk(model) as client:
        asked = {"model": "m", "messages": [question], "tools": CHAT_TOOLS}
        whole = await client.chat.completions.create(**asked)
        message = whole.choices[0].message
        assert (message.content, message.reasoning_content) == (TEXT, THINKING)
        assert [call.function.name for call in message.tool_calls] == ["weather", "clock"]
        assert message.tool_calls[0].function.arguments == CALL
        assert whole.choices[0].finish_reason == "tool_calls"
        assert whole.usage.prompt_tokens_details.cached_tokens == 2

        options = {"include_usage": True}
        async with client.chat.completions.stream(**asked, stream_options=options) as stream:
            streamed = await stream.get_final_completion()
        told = streamed.choices[0].message
        assert (told.content, told.reasoning_content) == (TEXT, THINKING)
        calls = [[(c.function.name, c.function.arguments) for c in m.tool_calls] for m in (told, message)]
        assert calls[0] == calls[1]
        assert streamed.choices[0].finish_reason == "tool_calls"
        assert streamed.usage == whole.usage

        results = [
            {"role": "tool", "tool_call_id": call.id, "content": "20 °C"} for call in message.tool_calls
        ]
        echoed = message.model_dump()
        done = await client.chat.completions.create(**asked | {"messages": [question, echoed, *results]})
        assert done.choices[0].message.content == "Sunny."
        _, turn, *tools = model.asks[-1].messages
        assert tools == results
        assert turn["reasoning_content"] == THINKING
        assert [call["id"] for call in turn["tool_calls"]] == [call.id for call in message.tool_calls]


async def test_a_chat_tells_log_probabilities_and_token_ids_to_those_who_ask():
    script = Script(["Hel", "lo"])
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "logprobs": True,
        "top_logprobs": 1,
        "extra_body": {"return_token_ids": True},
    }
    async with scripted_model(script, script) as model, openai_sdk(model) as client:
        whole = await client.chat.completions.create(**asked)
        scores, ids, prompts = [], [], []
        async for chunk in await client.chat.completions.create(**asked, stream=True):
            choice = chunk.choices[0]
            scores += choice.logprobs.content if choice.logprobs else []
            ids += getattr(choice, "token_ids", None) or []
            prompts += getattr(chunk, "prompt_token_ids", None) or []
        assert scores == whole.choices[0].logprobs.content
        assert [score.token for score in scores] == ["Hel", "lo"]
        assert scores[0].top_logprobs[0].token == "x"
        assert ids == whole.choices[0].token_ids == [100, 101]
        assert prompts == whole.prompt_token_ids == [11, 12, 13, 14, 15]


async def test_a_completion_is_the_same_whole_and_streamed():
    script = Script(["<think>", " is", " text"], reason="length")
    asked = {"model": "m", "prompt": [1, 2, 3], "logprobs": 1, "max_tokens": 3}
    async with scripted_model(script, script) as model, openai_sdk(model) as client:
        whole = await client.completions.create(**asked)
        chunks = [
            chunk
            async for chunk in await client.completions.create(
                **asked, stream=True, stream_options={"include_usage": True}
            )
        ]
        assert model.asks[0].prompt == [1, 2, 3]
        text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].text == "<think> is text"
        assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "length"
        assert chunks[-1].usage == whole.usage
        scores = [chunk.choices[0].logprobs for chunk in chunks if chunk.choices]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            joined = [item for score in scores if score for item in getattr(score, name)]
            assert joined == getattr(whole.choices[0].logprobs, name)


async def test_a_response_with_tools_goes_round_whole_and_streamed():
    async with (
        scripted_model(called(), called(), Script(["Sunny."])) as model,
        openai_sdk(model) as client,
    ):
        asked = {
            "model": "m",
            "instructions": "Be brief.",
            "input": "What is the weather?",
            "tools": FLAT_TOOLS,
            "include": ["reasoning.encrypted_content"],
        }
        whole = await client.responses.create(**asked)
        assert whole.output_text == TEXT
        assert [item.type for item in whole.output] == [
            "reasoning",
            "message",
            "function_call",
            "function_call",
        ]
        assert whole.output[0].content[0].text == THINKING
        assert (whole.output[2].name, whole.output[2].arguments) == ("weather", CALL)
        assert whole.status == "completed"
        assert whole.usage.input_tokens_details.cached_tokens == 2

        numbers, kinds = [], []
        async with client.responses.stream(**asked) as stream:
            async for event in stream:
                numbers.append(event.sequence_number)
                kinds.append(event.type)
            streamed = await stream.get_final_response()
        assert numbers == list(range(len(numbers)))
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
        assert without_ids(streamed.model_dump(exclude={"output"})) == without_ids(
            whole.model_dump(exclude={"output"})
        )
        assert [without_ids(item.to_dict()) for item in streamed.output] == [
            without_ids(item.to_dict()) for item in whole.output
        ]

        outputs = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "20 °C"}
            for item in whole.output
            if item.type == "function_call"
        ]
        history = [{"role": "user", "content": "What is the weather?"}]
        history += [item.to_dict() for item in whole.output] + outputs
        done = await client.responses.create(**asked | {"input": history})
        assert done.output_text == "Sunny."
        system, user, turn, *tools = model.asks[-1].messages
        assert system == {"role": "system", "content": "Be brief."}
        assert user == {"role": "user", "content": "What is the weather?"}
        assert (turn["content"], turn["reasoning_content"]) == (TEXT, THINKING)
        assert [call["id"] for call in turn["tool_calls"]] == [out["call_id"] for out in outputs]
        assert [(tool["role"], tool["content"]) for tool in tools] == [("tool", "20 °C")] * 2
        assert [tool["function"]["name"] for tool in model.asks[-1].tools] == ["weather", "clock"]


async def test_a_response_that_was_cut_off_says_so_in_both_forms():
    script = Script(["<think>\nHm.\n</think>\n\nOnce", " upon"], reason="length")
    async with scripted_model(script, script) as model, openai_sdk(model) as client:
        whole = await client.responses.create(model="m", input="x", max_output_tokens=2)
        assert (whole.status, whole.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert [item.status for item in whole.output] == ["completed", "incomplete"]
        events = [event async for event in await client.responses.create(model="m", input="x", stream=True)]
        assert events[-1].type == "response.incomplete"
        assert events[-1].response.output == whole.output


async def test_an_anthropic_message_with_tools_goes_round_whole_and_streamed():
    question = {"role": "user", "content": "What is the weather?"}
    async with (
        scripted_model(called(), called(), Script(["Sun", "ny."], stop="\n")) as model,
        anthropic_sdk(model) as client,
    ):
        asked = {
            "model": "m",
            "max_tokens": 2048,
            "system": "Be brief.",
            "messages": [question],
            "tools": ANTHROPIC_TOOLS,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
        }
        whole = await client.messages.create(**asked)
        assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert (whole.content[0].thinking, whole.content[1].text) == (THINKING, TEXT)
        assert whole.content[2].input == json.loads(CALL)
        assert whole.stop_reason == "tool_use"
        assert (whole.usage.input_tokens, whole.usage.cache_read_input_tokens) == (3, 2)

        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        assert without_ids(streamed.to_dict()) == without_ids(whole.to_dict())

        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "20 °C"}
            for block in whole.content
            if block.type == "tool_use"
        ]
        history = [
            question,
            {"role": "assistant", "content": whole.content},
            {"role": "user", "content": [*results, {"type": "text", "text": "So?"}]},
        ]
        done = await client.messages.create(**asked | {"messages": history, "stop_sequences": ["\n"]})
        assert (done.stop_reason, done.stop_sequence) == ("stop_sequence", "\n")
        last = model.asks[-1]
        assert [message["role"] for message in last.messages] == [
            *("system", "user", "assistant", "tool", "tool", "user")
        ]
        turn = last.messages[2]
        assert (turn["content"], turn["reasoning_content"]) == (TEXT, THINKING)
        assert [call["id"] for call in turn["tool_calls"]] == [result["tool_use_id"] for result in results]
        assert last.template_arguments == {"enable_thinking": True}
        assert last.sampling == {"max_new_tokens": 2048, "stop": ["\n"]}


async def test_arguments_that_are_no_json_neither_break_anthropics_client_nor_are_lost():
    cut = '<tool_call>{"name": "weather", "arguments": {"city": "Par'
    script = Script([cut[:30], cut[30:]], reason="length")
    asked = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}],
        "tools": ANTHROPIC_TOOLS,
    }
    async with scripted_model(script, script) as model, anthropic_sdk(model) as client:
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        assert whole.content[0].input == streamed.content[0].input == {"INVALID_JSON": '{"city": "Par'}
        assert whole.stop_reason == streamed.stop_reason == "max_tokens"


async def test_bad_requests_become_the_sdks_own_exceptions():
    async with scripted_model() as model, openai_sdk(model) as openai_, anthropic_sdk(model) as anthropic_:
        with pytest.raises(openai.BadRequestError) as refused:
            await openai_.chat.completions.create(model="m", messages=[{"role": "user"}], n=2)
        assert refused.value.param == "n"
        with pytest.raises(openai.BadRequestError) as refused:
            await openai_.responses.create(model="m", input="x", tools=[{"type": "web_search"}])
        assert refused.value.param == "tools[0].type"
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
        with pytest.raises(anthropic.BadRequestError) as refused:
            messages = [{"role": "user", "content": [{"type": "text", "text": "x"}, image]}]
            await anthropic_.messages.create(model="m", max_tokens=1, messages=messages)
        error = refused.value.body["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"].startswith("messages[0].content[1].type: ")


async def test_the_sdks_that_block_read_the_same():
    question = [{"role": "user", "content": "x"}]

    def ask_all(url: str) -> list[str]:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
            told = [client.chat.completions.create(model="m", messages=question).choices[0].message.content]
            chunks = client.completions.create(model="m", prompt="x", stream=True)
            told.append("".join(chunk.choices[0].text for chunk in chunks))
            with client.responses.stream(model="m", input="x") as stream:
                told.append(stream.get_final_response().output_text)
        with anthropic.Anthropic(base_url=url, api_key="unused", max_retries=0) as client:
            with client.messages.stream(model="m", max_tokens=9, messages=question) as stream:
                told.append(stream.get_final_text())
        return told

    async with scripted_model(*[Script(["So ", "be it."])] * 4) as model:
        assert await asyncio.to_thread(ask_all, model.url) == ["So be it."] * 4


async def test_streams_that_break_off_raise_in_the_sdks():
    broken = Script(["Once"], breaks=HttpError("the worker left", status=502, code="stream_broken"))
    message = {"role": "user", "content": "x"}
    async with (
        scripted_model(broken, broken, broken) as model,
        openai_sdk(model) as openai_,
        anthropic_sdk(model) as anthropic_,
    ):
        with pytest.raises(openai.APIError, match="the worker left"):
            async with openai_.chat.completions.stream(model="m", messages=[message]) as stream:
                await stream.get_final_completion()
        with pytest.raises(anthropic.APIStatusError, match="the worker left"):
            async with anthropic_.messages.stream(model="m", max_tokens=9, messages=[message]) as stream:
                await stream.get_final_message()
        events = [event async for event in await openai_.responses.create(model="m", input="x", stream=True)]
        assert [event.type for event in events[-2:]] == ["error", "response.failed"]
        assert events[-1].response.output[0].content[0].text == "Once"
