"""Whatever a client sends, it gets a 4xx in OpenAI's shape that names the field, and the server lives on."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
F = {"name": "f"}


async def refused(
    cramped_guide: Served, raw: bytes, *, path: str = CHAT, status: int = 400
) -> dict[str, Any]:
    """The error object with which the server refuses this body."""
    response = await cramped_guide.http.post(path, content=raw)
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    return error


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"5",
        b'{"messages": NaN}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": [{"role": "user", "content": "hi"}], "temperature": 1e999}',
        b'{"messages": ' + b"[" * 100_000,
        b'{"x": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
        b'{"messages": [{"role": "user", "content": "hi"}]} trailing',
    ],
)
async def test_a_body_that_is_not_json_is_refused(cramped_guide: Served, raw: bytes) -> None:
    await refused(cramped_guide, raw)
    paths = ("/v1/completions", "/v1/responses", "/generate", "/tokenize", "/detokenize", "/abort_request")
    for path in paths:
        await refused(cramped_guide, raw, path=path)
    for path in ("/v1/messages", "/v1/messages/count_tokens", "/generate_stream"):
        answer = await cramped_guide.http.post(path, content=raw)
        assert answer.status_code == 400 and answer.json()["error"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": "x"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0].role"),
        ({"messages": [{"role": "a wizard\n", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [*HI, {"role": "user", "content": [{"type": "text"}]}]}, "messages[1].content[0].text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "user", "content": [{"type": {}}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}
                ]
            },
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "5"}}]}
                ]
            },
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}
                ]
            },
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"max_tokens": 10_000}, "max_tokens"),
        ({"max_completion_tokens": 10**30}, "max_completion_tokens"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"n": 10**20}, "n"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"frequency_penalty": -3}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"seed": 2**70}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"seed": -(2**63) - 1}, "seed"),
        ({"stop": 5}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["x"] * 65}, "stop"),
        ({"stop": "x" * 1001}, "stop"),
        ({"stop_token_ids": [10**6]}, "stop_token_ids"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"stop_token_ids": ["x"]}, "stop_token_ids[0]"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"10000000": 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"logit_bias": {"5": 1e9}}, "logit_bias"),
        ({"logprobs": 5}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream_options": {}, "stream": False}, "stream_options"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"prompt_logprobs": True}, "prompt_logprobs"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"response_format": {"type": "grammar"}}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "thing"}}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strict": 1}}},
            "response_format.json_schema.strict",
        ),
        ({"guided_json": 5}, "guided_json"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": {"type": "object"}, "guided_whitespace_pattern": "("}, "guided_json"),
        ({"guided_json": {"type": "object"}, "guided_whitespace_pattern": "( |a)*" * 20_000}, "guided_json"),
        ({"guided_regex": "("}, "guided_regex"),
        ({"guided_regex": 5}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": "ab"}, "guided_choice"),
        ({"guided_grammar": "root ::= nowhere"}, "guided_grammar"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_regex"),
        ({"regex": "["}, "regex"),
        ({"ebnf": "?"}, "ebnf"),
        ({"structured_outputs": {"json": {"$ref": "#/nowhere"}}}, "structured_outputs.json"),
        ({"structured_outputs": {"choice": ["a"], "regex": "a"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"grammar": "start: ("}}, "structured_outputs.grammar"),
        ({"tools": [{}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
            "tools[0].function.parameters",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}]},
            "tools[0].function.parameters",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "strict": "yes"}}]},
            "tools[0].function.strict",
        ),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f"}},
                    {"type": "function", "function": {"name": "g", "parameters": {"type": "thing"}}},
                ],
                "tool_choice": "required",
            },
            "tools[1].function.parameters",
        ),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "any", "tools": [{"type": "function", "function": {"name": "f"}}]}, "tool_choice"),
        (
            {
                "tool_choice": {"type": "function", "function": {"name": "g"}},
                "tools": [{"type": "function", "function": {"name": "f"}}],
            },
            "tool_choice",
        ),
        ({"tool_choice": 5}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
        ({"chat_template_kwargs": {"messages": []}}, "messages"),
        ({"add_generation_prompt": True, "continue_final_message": True}, "messages"),
        ({"priority": 10**30}, "priority"),
        ({"cache_salt": 5}, "cache_salt"),
        ({"cache_salt": "a\0b"}, "cache_salt"),
        ({"model": 5}, "model"),
    ],
)
async def test_a_wrong_field_is_named(cramped_guide: Served, fields: dict[str, Any], param: str) -> None:
    error = await refused(cramped_guide, json.dumps({"messages": HI, **fields}).encode())
    assert error["param"] == param, error


async def test_no_depth_of_nesting_makes_the_server_fail(cramped_guide: Served) -> None:
    codes = set()
    for depth in range(900, 1000, 4):  # between what the decoder takes and what can be written again
        nested = b'{"items":' * depth + b"{}" + b"}" * depth
        for body in (
            b'{"messages": [{"role": "user", "content": "hi"}], "guided_json": %b}' % nested,
            b'{"messages": [{"role": "user", "content": "hi"}], "tool_choice": "required",'
            b' "tools": [{"type": "function", "function": {"name": "f", "parameters": %b}}]}' % nested,
        ):
            codes.add((await refused(cramped_guide, body))["code"])
    assert {"invalid_json", "invalid_grammar"} <= codes


async def test_a_prompt_too_long_says_how_long_and_what_fits(cramped_guide: Served) -> None:
    body = {"messages": [{"role": "user", "content": "hello " * 500}]}
    error = await refused(cramped_guide, json.dumps(body).encode())
    assert error["code"] == "context_length_exceeded"
    tokens = (await cramped_guide.post("/tokenize", body)).json()["count"]
    assert str(tokens) in error["message"] and "64" in error["message"]


async def test_a_body_over_the_limit_is_a_413(cramped_guide: Served) -> None:
    error = await refused(cramped_guide, b'{"x": "' + b"a" * 300_000 + b'"}', status=413)
    assert error["code"] == "body_too_large" and "200000" in error["message"]

    async def chunks() -> Any:
        for _ in range(30):
            yield b"a" * 10_000

    response = await cramped_guide.http.post(CHAT, content=chunks())
    assert response.status_code == 413


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
roles = st.sampled_from(["user", "system", "assistant", "tool", "developer"]) | anything
messages = st.lists(
    st.fixed_dictionaries({}, optional={"role": roles, "content": anything, "tool_calls": anything}),
    max_size=3,
)
FIELDS = """
model n stream stream_options min_tokens temperature top_p top_k min_p presence_penalty
frequency_penalty repetition_penalty seed stop stop_token_ids ignore_eos logit_bias logprobs top_logprobs
skip_special_tokens include_stop_str_in_output return_token_ids cache_salt priority best_of response_format
echo prompt_logprobs suffix tools tool_choice chat_template_kwargs continue_final_message
add_generation_prompt guided_json guided_regex guided_choice structured_outputs ebnf unknown
"""
sampling_fields = dict.fromkeys(FIELDS.split(), anything) | {
    "n": st.integers(-1, 3),
    "temperature": st.floats(-1, 3),
    "stop": st.lists(st.text(max_size=3), max_size=2),
    "logprobs": st.booleans() | st.integers(-1, 25),
}
short = {"max_tokens": st.integers(-1, 5) | st.just(3)}
generate_sampling = st.fixed_dictionaries(
    {},
    optional={
        "max_new_tokens": st.integers(-1, 5),
        "temperature": st.floats(-1, 3),
        "n": st.integers(-1, 3),
        "stop": st.lists(st.text(max_size=3), max_size=2) | anything,
        "logit_bias": anything,
        "top_k": anything,
    },
)
ids = st.lists(st.integers(-1, 5000) | anything, max_size=5)
bodies = st.one_of(
    st.tuples(
        st.just(CHAT), st.fixed_dictionaries({"messages": messages, **short}, optional=sampling_fields)
    ),
    st.tuples(
        st.just(CHAT),
        st.fixed_dictionaries({"messages": st.just(HI), **short}, optional=sampling_fields),
    ),
    st.tuples(
        st.just("/v1/completions"),
        st.fixed_dictionaries({"prompt": st.text() | ids | anything}, optional=sampling_fields),
    ),
    st.tuples(
        st.just("/generate"),
        st.fixed_dictionaries(
            {},
            optional={
                "text": st.text() | st.lists(st.text(), max_size=2) | anything,
                "input_ids": ids | anything,
                "sampling_params": generate_sampling | st.lists(generate_sampling, max_size=2) | anything,
                "stream": st.booleans(),
                "return_logprob": st.booleans() | anything,
                "top_logprobs_num": st.integers(-1, 101) | anything,
                "logprob_start_len": st.integers(-2, 5) | anything,
                "token_ids_logprob": ids | st.lists(ids, max_size=2) | anything,
                "rid": anything,
            },
        ),
    ),
    st.tuples(
        st.just("/v1/messages"),
        st.fixed_dictionaries(
            {"messages": messages | st.just(HI), "max_tokens": st.integers(-1, 5)},
            optional=sampling_fields
            | dict.fromkeys(
                ["system", "tools", "tool_choice", "thinking", "output_config", "stop_sequences"], anything
            ),
        ),
    ),
    st.tuples(
        st.just("/v1/responses"),
        st.fixed_dictionaries(
            {"input": st.text() | messages | anything, "max_output_tokens": st.integers(-1, 5)},
            optional=sampling_fields
            | dict.fromkeys(
                ["instructions", "tools", "tool_choice", "text", "reasoning", "include", "store"], anything
            ),
        ),
    ),
    st.tuples(
        st.just("/generate_stream"),
        st.fixed_dictionaries(
            {"inputs": st.text() | anything},
            optional={
                "parameters": st.fixed_dictionaries(
                    {"max_new_tokens": st.integers(-1, 5)},
                    optional=dict.fromkeys(
                        ["temperature", "top_k", "top_p", "seed", "stop", "truncate", "top_n_tokens"],
                        st.integers(-2, 5) | anything,
                    )
                    | {"grammar": st.fixed_dictionaries({"type": st.just("json"), "value": anything})},
                )
                | anything
            },
        ),
    ),
    st.tuples(st.just("/tokenize"), st.fixed_dictionaries({"prompt": st.text() | anything})),
    st.tuples(st.just("/detokenize"), st.fixed_dictionaries({"tokens": ids | anything})),
    st.tuples(
        st.just("/update_weights_from_tensor"),
        st.fixed_dictionaries(
            {
                "serialized_named_tensors": st.lists(st.text(), max_size=2)
                | st.sampled_from(["", "AAAA"])
                | anything
            },
            optional={"flush_cache": anything, "weight_version": anything, "load_format": anything},
        ),
    ),
    st.tuples(
        st.just("/get_weights_by_name"),
        st.fixed_dictionaries({"name": st.text() | anything}, optional={"truncate_size": anything}),
    ),
    st.tuples(st.just("/abort_request"), st.fixed_dictionaries({}, optional={"rid": anything})),
    st.tuples(
        st.just("/prefetch"),
        st.fixed_dictionaries(
            {},
            optional={"text": st.text() | anything, "input_ids": ids | anything, "messages": messages}
            | dict.fromkeys(
                ["cache_salt", "extra_key", "priority", "tools", "add_generation_prompt"], anything
            ),
        ),
    ),
    st.tuples(
        st.sampled_from([CHAT, "/v1/messages", "/v1/responses", "/generate", "/tokenize", "/prefetch"]),
        anything,
    ),
)


async def survives(served: Served, path: str, fields: Any) -> None:
    """The server answers this body with something other than its own failure."""
    response = await served.http.post(path, content=json.dumps(fields).encode("utf-8", "surrogatepass"))
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        error = response.json()["error"]
        assert error if path == "/generate_stream" else error["message"]
    assert (await served.http.get("/health")).status_code == 200


careful = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(careful)
@given(body=bodies)
async def test_no_body_at_all_makes_the_server_fail(cramped_guide: Served, body: tuple[str, Any]) -> None:
    await survives(cramped_guide, *body)


@pytest.mark.slow
@settings(careful, max_examples=1000)
@given(body=bodies)
async def test_no_body_of_very_many_makes_the_server_fail(
    cramped_guide: Served, body: tuple[str, Any]
) -> None:
    await survives(cramped_guide, *body)
