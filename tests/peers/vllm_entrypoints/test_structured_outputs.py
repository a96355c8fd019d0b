"""vLLM's cases of answers that a choice, a regular expression, a schema or a grammar binds."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import openai
import pytest

from support.ported_cases import ported
from support.tutored_lessons import ASKED_PROFILE
from support.tutored_lessons import PROFILE_SCHEMA as PROFILE

MODEL = "tutored"
CHAT = "tests/entrypoints/openai/chat_completion/test_chat.py"
COMPLETION = "tests/entrypoints/openai/completion/test_completion.py"
SYSTEM = {"role": "system", "content": "you are a helpful assistant"}
LANGUAGES = ["Python", "Java", "JavaScript", "C++", "C#", "PHP", "TypeScript", "Ruby", "Swift", "Kotlin"]
BEST = [SYSTEM, {"role": "user", "content": "The best language for type-safe systems programming is "}]
ADDRESS = r"((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.){3}(25[0-5]|(2[0-4]|1\d|[1-9]|)\d)"


async def say(client: openai.AsyncOpenAI, messages: list[dict[str, Any]], **fields: Any) -> str:
    answer = await client.chat.completions.create(model=MODEL, messages=messages, **fields)
    content = answer.choices[0].message.content
    assert content is not None
    return content


async def say_two(client: openai.AsyncOpenAI, asked: str, then: str, **fields: Any) -> tuple[str, str]:
    """An answer to `asked`, and the one to `then` in the same chat."""
    messages: list[dict[str, Any]] = [SYSTEM, {"role": "user", "content": asked}]
    first = await say(client, messages, **fields)
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": then}]
    return first, await say(client, messages, **fields)


@ported(CHAT, "test_structured_outputs_choice_chat")
async def test_one_of_several_texts(client: openai.AsyncOpenAI):
    first, second = await say_two(
        client,
        BEST[1]["content"],
        "I disagree, pick another one",
        max_completion_tokens=10,
        temperature=0.7,
        extra_body={"structured_outputs": {"choice": LANGUAGES}},
    )
    assert first in LANGUAGES
    assert second in LANGUAGES
    assert first != second


@ported(CHAT, "test_structured_outputs_json_chat")
async def test_a_document_of_a_schema(client: openai.AsyncOpenAI):
    answers = await say_two(
        client,
        ASKED_PROFILE,
        "Give me another one with a different name and age",
        max_completion_tokens=1000,
        extra_body={"structured_outputs": {"json": PROFILE}},
    )
    first, second = map(json.loads, answers)
    jsonschema.validate(instance=first, schema=PROFILE)
    jsonschema.validate(instance=second, schema=PROFILE)
    assert first["name"] != second["name"]
    assert first["age"] != second["age"]


@ported(CHAT, "test_structured_outputs_regex_chat")
async def test_a_text_of_a_regular_expression(client: openai.AsyncOpenAI):
    answers = await say_two(
        client,
        f"Give an example IP address with this regex: {ADDRESS}",
        "Give me a different one",
        max_completion_tokens=20,
        extra_body={"structured_outputs": {"regex": ADDRESS}},
    )
    assert all(re.fullmatch(ADDRESS, answer) for answer in answers)
    assert answers[0] != answers[1]


@ported(CHAT, "test_structured_outputs_type_error")
async def test_a_regular_expression_that_is_no_text(client: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError):
        await say(client, BEST, extra_body={"structured_outputs": {"regex": {1: "Python", 2: "C++"}}})


@ported(CHAT, "test_structured_outputs_choice_chat_logprobs")
async def test_logprobs_of_a_bound_answer_are_numbers(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=BEST,
        max_completion_tokens=10,
        logprobs=True,
        top_logprobs=5,
        extra_body={"structured_outputs": {"choice": LANGUAGES}},
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert all(item.logprob >= -9999.0 for item in logprobs.content[0].top_logprobs)


@ported(CHAT, "test_response_format_json_object")
async def test_some_json(client: openai.AsyncOpenAI):
    asked = 'what is 1+1? please respond with a JSON object, the format is {"result": 2}'
    for _ in range(2):
        answer = await say(
            client, [{"role": "user", "content": asked}], response_format={"type": "json_object"}
        )
        assert json.loads(answer) == {"result": 2}


@ported(CHAT, "test_response_format_json_schema")
async def test_a_schema_makes_json_of_what_is_none(client: openai.AsyncOpenAI):
    messages = [{"role": "user", "content": 'what is 1+1? The format is "result": 2'}]
    for _ in range(2):
        free = await say(client, messages)
        with pytest.raises((json.JSONDecodeError, AssertionError)):
            assert json.loads(free) == {"result": 2}
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}}
    bound = {"type": "json_schema", "json_schema": {"name": "foo_test", "schema": schema}}
    for _ in range(2):
        assert json.loads(await say(client, messages, response_format=bound)) == {"result": 2}


async def refused(client: openai.AsyncOpenAI, prompt: str, **fields: Any) -> None:
    with pytest.raises((openai.BadRequestError, openai.APIError)):
        await client.completions.create(model=MODEL, prompt=prompt, extra_body=fields)


@ported(COMPLETION, "test_invalid_json_schema")
async def test_a_schema_that_is_none(client: openai.AsyncOpenAI):
    kinds = {"enum": ["sedan", "SUV", "Truck", "Coupe"], "title": "CarType", "type": "string"}
    schema = {
        "$defs": {"CarType": kinds},
        "properties": {
            "brand": {"title": "Brand", "type": "string"},
            "model": {"title": "Model", "type": "string"},
            "car_type": {"$ref": "#/$defs/CarType"},
            "foo": "bar",
        },
        "required": ["brand", "model", "car_type"],
        "title": "CarDescription",
        "type": "object",
    }
    await refused(client, "Generate a JSON of the most iconic car", structured_outputs={"json": schema})


@ported(COMPLETION, "test_invalid_regex")
async def test_a_regular_expression_that_is_none(client: openai.AsyncOpenAI):
    await refused(client, "Generate an email address", structured_outputs={"regex": r"[.*"}, stop=["\n"])


@ported(COMPLETION, "test_invalid_grammar")
async def test_a_grammar_that_is_none(client: openai.AsyncOpenAI):
    grammar = """
        root ::= select_statementinvalidsyntax
        select_statement ::= "SELECT " column " from " table " where " condition
        column ::= "col_1 " | "col_2 "
        table ::= "table_1 " | "table_2 "
        condition ::= column "= " number
        number ::= "1 " | "2 "
    """
    await refused(client, "Generate an SQL query", structured_outputs={"grammar": grammar})
