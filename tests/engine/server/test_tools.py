"""Tool calls and thinking in chat completions, as the `openai` SDK sees them."""

import json
from typing import Any

import pytest

from radixway.core.http import BadBodyError
from radixway.engine.server.tools import parse_tool_use
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODEL = "radixway-guide"
HI: list[Any] = [{"role": "user", "content": "What is the weather?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 10},
                "days": {"type": "integer", "maximum": 9},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
TIME = {"type": "function", "function": {"name": "get_time"}}
TOOLS: list[Any] = [WEATHER, TIME]
CALLS = (
    "I will look.\n"
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "北京", "days": 2}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
)


async def streamed(served: Served, **fields: Any) -> tuple[dict[str, Any], list[Any]]:
    """What the chunks of a stream add up to, and the chunks."""
    stream = await served.openai.chat.completions.create(model=MODEL, messages=HI, stream=True, **fields)
    chunks = [chunk async for chunk in stream]
    message: dict[str, Any] = {"content": "", "reasoning": "", "calls": [], "finish": None}
    for choice in (chunk.choices[0] for chunk in chunks if chunk.choices):
        message["content"] += choice.delta.content or ""
        message["reasoning"] += (choice.delta.model_extra or {}).get("reasoning_content", "")
        message["finish"] = choice.finish_reason or message["finish"]
        for call in choice.delta.tool_calls or []:
            if call.id is not None:
                assert call.index == len(message["calls"]) and call.type == "function"
                message["calls"].append([call.function.name, ""])
            message["calls"][call.index][1] += call.function.arguments or ""
    return message, chunks


async def test_calls_come_as_tool_calls(says: Served) -> None:
    says.engine.say(CALLS)
    reply = await says.openai.chat.completions.create(model=MODEL, messages=HI, tools=TOOLS)
    choice = reply.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("I will look.", "tool_calls")
    weather, time = choice.message.tool_calls or []
    assert (weather.type, weather.function.name) == ("function", "get_weather")
    assert json.loads(weather.function.arguments) == {"city": "北京", "days": 2}
    assert (time.function.name, time.function.arguments) == ("get_time", "{}")
    assert weather.id != time.id
    prompt = says.engine.tokenizer.decode(says.engine.submitted[0][0], skip_special_tokens=False)
    assert '"name": "get_weather"' in prompt


async def test_a_stream_gives_ids_and_names_first_and_arguments_in_pieces(says: Served) -> None:
    says.engine.say(CALLS)
    message, chunks = await streamed(says, tools=TOOLS, stream_options={"include_usage": True}, logprobs=True)
    assert message["content"] == "I will look." and message["finish"] == "tool_calls"
    assert message["calls"] == [["get_weather", '{"city": "北京", "days": 2}'], ["get_time", "{}"]]
    assert not any("<" in (c.choices[0].delta.content or "") for c in chunks if c.choices)
    pieces = [c for c in chunks if c.choices and c.choices[0].delta.tool_calls]
    assert len(pieces) > 4, "the arguments come as they are written"
    tokens = [e for c in chunks if c.choices and c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert len(tokens) == chunks[-1].usage.completion_tokens == len(says.engine.script) + 1


async def test_without_tools_or_with_none_of_them_wanted_the_text_is_left_alone(says: Served) -> None:
    for fields in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        says.engine.say(CALLS)
        choice = (await says.openai.chat.completions.create(model=MODEL, messages=HI, **fields)).choices[0]
        assert (choice.message.content, choice.message.tool_calls) == (CALLS, None)
        assert choice.finish_reason == "stop"
        prompt = says.engine.tokenizer.decode(says.engine.submitted[0][0])
        assert "get_weather" not in prompt


async def test_without_parallel_calls_the_first_is_given_out(says: Served) -> None:
    says.engine.say(CALLS)
    message, _ = await streamed(says, tools=TOOLS, parallel_tool_calls=False)
    assert [name for name, _ in message["calls"]] == ["get_weather"]


async def test_a_call_cut_off_ends_by_length(says: Served) -> None:
    says.engine.say(CALLS)
    most = len(says.engine.tokenizer.encode(CALLS[: CALLS.index(', "days"')], add_special_tokens=False))
    message, _ = await streamed(says, tools=TOOLS, max_tokens=most)
    assert message["finish"] == "length"
    assert message["calls"] == [["get_weather", '{"city": "北京"']]


async def test_calls_and_results_go_through_the_template(says: Served) -> None:
    says.engine.say(CALLS)
    first = await says.openai.chat.completions.create(model=MODEL, messages=HI, tools=TOOLS)
    message = first.choices[0].message
    calls = message.tool_calls or []
    results = [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in calls]
    await says.openai.chat.completions.create(model=MODEL, messages=[*HI, message, *results], tools=TOOLS)
    prompt = says.engine.tokenizer.decode(says.engine.submitted[-1][0])
    assert CALLS in prompt and prompt.count("sunny") == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_thinking_is_split_off(thinks: Served, stream: bool) -> None:
    thinks.engine.say("<think>\nRain, I guess.\n</think>\n\nIt rains.")
    if stream:
        message, _ = await streamed(thinks)
        assert (message["reasoning"], message["content"]) == ("Rain, I guess.", "It rains.")
        return
    reply = (await thinks.chat()).json()["choices"][0]
    assert reply["message"] == {
        "role": "assistant",
        "content": "It rains.",
        "reasoning_content": "Rain, I guess.",
    }


async def test_thinking_comes_before_calls(thinks: Served) -> None:
    thinks.engine.say(f"<think>\nHm.\n</think>\n\n{CALLS}")
    message, _ = await streamed(thinks, tools=TOOLS)
    assert (message["reasoning"], message["content"]) == ("Hm.", "I will look.")
    assert len(message["calls"]) == 2


async def test_thinking_is_left_out_where_that_is_asked_for(thinks: Served) -> None:
    thinks.engine.say("<think>\nHm.\n</think>\n\nYes.")
    message, _ = await streamed(thinks, extra_body={"include_reasoning": False})
    assert (message["reasoning"], message["content"]) == ("", "Yes.")
    thinks.engine.say("<think>\nHm.\n</think>\n\nYes.")
    whole = (await thinks.chat(include_reasoning=False)).json()["choices"][0]["message"]
    assert whole["content"] == "Yes." and "reasoning_content" not in whole


async def test_thinking_can_be_switched_off_or_left_in_the_text(thinks: Served) -> None:
    thinks.engine.say("It <think>rains.")
    reply = (await thinks.chat(chat_template_kwargs={"enable_thinking": False})).json()
    assert reply["choices"][0]["message"]["content"] == "It rains."  # special tokens are left out of text
    thinks.engine.say("<think>\nHm.\n</think>\n\nYes.")
    reply = (await thinks.chat(separate_reasoning=False, skip_special_tokens=False)).json()
    message = reply["choices"][0]["message"]
    assert message["content"] == "<think>\nHm.\n</think>\n\nYes." and message["reasoning_content"] is None


async def test_a_constraint_leaves_room_for_thinking_where_there_may_be_some(thinks: Served) -> None:
    engine = thinks.engine
    opens = engine.tokenizer.backend.token_to_id("<think>")
    engine.say("yes")
    await thinks.chat(guided_choice=["yes"])
    await thinks.chat(guided_choice=["yes"], chat_template_kwargs={"enable_thinking": False})
    may_think, may_not = [params.grammar.make_matcher() for _, params, *_ in engine.submitted]
    assert may_think.allowed_tokens(frozenset())[opens] and not may_not.allowed_tokens(frozenset())[opens]
    may_think.accept_token(opens)
    assert may_think.allowed_tokens(frozenset()).all()


def allowed(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


async def test_of_allowed_tools_the_others_are_not_shown() -> None:
    one, other = TOOLS
    use = parse_tool_use(TOOLS, allowed("auto", other["function"]["name"]))
    assert (use.shown, use.forced) == ([other], [])
    use = parse_tool_use(TOOLS, allowed("required", one["function"]["name"]), False)
    assert (use.shown, use.forced, use.parallel) == ([one], [one], False)


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        (allowed("required", "nothing"), "tool_choice.allowed_tools.tools[0]"),
        (allowed("required"), "tool_choice.allowed_tools"),
        (allowed("none", "get_time"), "tool_choice.allowed_tools"),
        ({"type": "allowed_tools", "allowed_tools": 5}, "tool_choice.allowed_tools"),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [5]}},
            "tool_choice.allowed_tools.tools[0]",
        ),
    ],
)
async def test_allowed_tools_that_make_no_sense_are_named(choice: Any, param: str) -> None:
    with pytest.raises(BadBodyError) as refused:
        parse_tool_use(TOOLS, choice)
    assert refused.value.param == param


# With the bundled model, which has never seen a tool: what is required is enforced.


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("required", {"get_weather", "get_time"}),
        ({"type": "function", "function": {"name": "get_time"}}, {"get_time"}),
        (allowed("required", "get_time"), {"get_time"}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_required_calls_are_enforced(guide: Served, choice: Any, names: set[str], stream: bool) -> None:
    fields: Any = {"tools": TOOLS, "tool_choice": choice, "temperature": 1.5, "seed": 3, "max_tokens": 150}
    if stream:
        message, _ = await streamed(guide, **fields)
        calls, content, finish = message["calls"], message["content"], message["finish"]
    else:
        reply = await guide.openai.chat.completions.create(model=MODEL, messages=HI, **fields)
        message = reply.choices[0].message
        calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or []]
        content, finish = message.content or "", reply.choices[0].finish_reason
    assert calls and {name for name, _ in calls} <= names and not content
    assert finish == "tool_calls"
    for name, arguments in calls:
        parsed = json.loads(arguments)
        assert set(parsed) <= {"city", "days"} if name == "get_weather" else parsed == {}


async def test_a_tool_that_is_not_there_or_cannot_be_followed_is_named(guide: Served) -> None:
    choice = {"type": "function", "function": {"name": "missing"}}
    error = (await guide.chat(tools=TOOLS, tool_choice=choice)).json()["error"]
    assert error["param"] == "tool_choice" and "Tool 'missing' not found in tools list" in error["message"]
    wrong = {"type": "object", "properties": {"x": {"type": "unknown_type"}}, "required": ["x"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": wrong}}]
    error = (await guide.chat(tools=tools, tool_choice="required")).json()["error"]
    assert error["param"] == "tools[0].function.parameters" and error["code"] == "invalid_grammar"
    assert "invalid 'parameters' schema" in error["message"]


async def test_a_json_answer_or_a_call_where_both_are_possible(guide: Served) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": ["sun", "rain"]}}}
    for bias, wanted in ((-100, "answer"), (100, "call")):
        first = guide.app.service.tokenizer.encode("<tool_call>", add_special_tokens=False)[0]
        reply = await guide.openai.chat.completions.create(
            model=MODEL,
            messages=HI,
            tools=[TIME],
            parallel_tool_calls=False,
            response_format=form,
            logit_bias={str(first): bias},
            max_tokens=60,
        )
        message = reply.choices[0].message
        if wanted == "answer":
            assert message.content in ('"sun"', '"rain"') and not message.tool_calls
        else:
            assert message.content is None and message.tool_calls
