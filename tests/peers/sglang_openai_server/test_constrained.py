"""SGLang's cases of answers that a schema, an expression, a grammar or a structural tag binds."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
JSON_KIT = "python/sglang/test/kits/json_constrained_kit.py"
MODE_KIT = "python/sglang/test/kits/json_mode_kit.py"
REGEX_KIT = "python/sglang/test/kits/regex_constrained_kit.py"
EBNF_KIT = "python/sglang/test/kits/ebnf_constrained_kit.py"
EBNF = "test/registered/openai_server/features/test_openai_server_ebnf.py"
TAG = "test/srt/openai_server/features/test_structural_tag.py"
SYSTEM = {"role": "system", "content": "You are a helpful AI assistant"}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[\\w]+$"}, "population": {"type": "integer"}},
    "required": ["name", "population"],
    "additionalProperties": False,
}
WRITTEN = json.dumps(SCHEMA)
QUESTION = "Introduce the capital of France. Return in a JSON format. The JSON Schema is: "


def is_city(text: str) -> bool:
    city = json.loads(text)
    return isinstance(city["name"], str) and isinstance(city["population"], int)


async def generate(http: httpx.AsyncClient, text: str, n: int = 1, **params: Any) -> Any:
    sampling = {"temperature": 0 if n == 1 else 0.5, "max_new_tokens": 128, "n": n} | params
    asked = {
        "text": text,
        "sampling_params": sampling,
        "stream": False,
        "return_logprob": False,
        "top_logprobs_num": 0,
        "logprob_start_len": 0,
    }
    return (await http.post("/generate", json=asked)).json()


async def generate_json(http: httpx.AsyncClient, schema: str | None) -> Any:
    params = {"stop_token_ids": [119690], "json_schema": schema}
    return await generate(http, QUESTION + json.dumps(schema), **params)


@ported(JSON_KIT, "test_json_generate")
async def test_a_document_of_a_schema(http: httpx.AsyncClient):
    assert is_city((await generate_json(http, WRITTEN))["text"])


@ported(JSON_KIT, "test_json_invalid")
async def test_a_schema_that_is_none_is_answered_in_json(http: httpx.AsyncClient):
    assert isinstance(await generate_json(http, "INVALID"), dict)
    assert is_city((await generate_json(http, WRITTEN))["text"]), "the engine still answers"


@ported(JSON_KIT, "test_json_openai")
async def test_a_document_of_a_schema_in_a_chat(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, {"role": "user", "content": QUESTION + json.dumps(WRITTEN)}],
        temperature=0,
        max_tokens=128,
        response_format={"type": "json_schema", "json_schema": {"name": "foo", "schema": SCHEMA}},
    )
    assert is_city(answer.choices[0].message.content)


@ported(JSON_KIT, "test_mix_json_and_other")
async def test_bound_and_free_answers_at_once(http: httpx.AsyncClient):
    schemas = [None, None, WRITTEN, WRITTEN] * 10
    answers = await asyncio.gather(*(generate_json(http, schema) for schema in schemas))
    bound = [answer for answer, schema in zip(answers, schemas, strict=True) if schema]
    assert all(is_city(answer["text"]) for answer in bound)
    assert all("text" in answer for answer in answers)


BULGARIA = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "You are a helpful AI assistant that gives a short answer."},
        {"role": "user", "content": "What is the capital of Bulgaria?"},
    ],
    "temperature": 0,
    "max_tokens": 128,
    "response_format": {"type": "json_object"},
}


@ported(MODE_KIT, "test_json_mode_response")
async def test_some_json(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(**BULGARIA)
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


@ported(MODE_KIT, "test_json_mode_with_streaming")
async def test_some_streamed_json(client: openai.AsyncOpenAI):
    stream = await client.chat.completions.create(**BULGARIA, stream=True)
    texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert isinstance(json.loads("".join(texts)), dict)


@ported(REGEX_KIT, "test_regex_generate_email")
async def test_a_text_of_a_regular_expression(http: httpx.AsyncClient):
    answer = await generate(http, "Generate an email address:", regex=r"^user@example\.com$")
    assert re.match(r"^user@example\.com$", answer["text"].strip())


CALL = r'^\{"name":"config_service",\s*"arguments":\{%s\}\}$'
THEME, LANGUAGE, NOTES = (
    r'"theme":"(light|dark)"',
    r'"language":"(en|es|fr)"',
    r'"notifications":(true|false)',
)
GRAMMARS = [
    pytest.param(
        'root ::= "user@example.com"',
        [r"^user@example\.com$"],
        "Generate an email address:",
        3,
        id="email",
    ),
    pytest.param(
        'root ::= "Hello" | "Hi" | "Hey"', [r"^(Hello|Hi|Hey)$"], "Generate a greeting:", 3, id="greeting"
    ),
    pytest.param(
        "root ::= digit digit digit\n        digit ::= [0-9]",
        [r"^\d{3}$"],
        "Generate a three-digit number:",
        3,
        id="number",
    ),
    pytest.param(
        """
        root ::= "(" area ")" " " prefix "-" line
        area ::= [0-9] [0-9] [0-9]
        prefix ::= [0-9] [0-9] [0-9]
        line ::= [0-9] [0-9] [0-9] [0-9]
        """,
        [r"^\(\d{3}\) \d{3}-\d{4}$"],
        "Generate a phone number:",
        3,
        id="phone",
    ),
    pytest.param(
        f"""
        root ::= year "-" month "-" day
        year ::= "2024"
        month ::= {" | ".join(f'"{month:02}"' for month in range(1, 13))}
        day ::= {" | ".join(f'"{day:02}"' for day in range(1, 11))} |
               {" | ".join(f'"{day:02}"' for day in range(11, 32))}
        """,
        [r"^2024-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"],
        "Generate a date in YYYY-MM-DD format:",
        3,
        id="date",
    ),
    pytest.param(
        """
        root ::= "#" hex hex hex hex hex hex
        hex ::= [0-9] | [A-F]
        """,
        [r"^#[0-9A-F]{6}$"],
        "Generate a hex color code:",
        3,
        id="hex_color",
    ),
    pytest.param(
        r"""
        root ::= object
        object ::= "{" ws pair (ws "," ws pair)* ws "}"
        pair ::= "\"name\"" ws ":" ws value |
                 "\"age\"" ws ":" ws number |
                 "\"city\"" ws ":" ws string
        value ::= string | number
        string ::= "\"" [a-zA-Z0-9 ]+ "\""
        number ::= [1-9] [0-9]*
        ws ::= [ ]*
        """,
        [
            r'^{\s*"name"\s*:\s*"[a-zA-Z0-9 ]+"\s*,\s*"age"\s*:\s*[1-9][0-9]*\s*,'
            r'\s*"city"\s*:\s*"[a-zA-Z0-9 ]+"\s*}$'
        ],
        "Generate a simple JSON with name, age, and city:",
        3,
        id="complex_json",
    ),
    pytest.param(
        """
        root ::= logentry
        logentry ::= "[" datetime "] " level ": System.process - " message
        datetime ::= "2024-01-01T12:00:00Z"
        level ::= "INFO"
        message ::= "Operation " [a-z]+ " successfully"
        """,
        [r"^\[2024-01-01T12:00:00Z\] INFO: System\.process - Operation [a-z]+ successfully$"],
        "Generate a log entry:",
        3,
        id="custom_log_format",
    ),
    pytest.param(
        r"""
        root ::= function_call
        function_call ::= call_config_service
        call_config_service ::= "{" "\"name\"" ":" "\"config_service\"" ", " "\"arguments\"" ":" arguments "}"
        arguments ::= "{" ( theme ( "," language )? ( "," notes )? | language ( "," notes )? | notes )? "}"
        theme ::= "\"theme\"" ":" ("\"light\"" | "\"dark\"")
        language ::= "\"language\"" ":" ("\"en\"" | "\"es\"" | "\"fr\"")
        notes ::= "\"notifications\"" ":" ("true" | "false")
        """,
        [
            CALL % r",\s*".join(given)
            for given in (
                (),
                (THEME,),
                (LANGUAGE,),
                (NOTES,),
                (THEME, LANGUAGE),
                (THEME, NOTES),
                (LANGUAGE, NOTES),
                (THEME, LANGUAGE, NOTES),
            )
        ],
        "Configure the service with optional settings:",
        5,
        id="all_optional_function_params",
    ),
]


@pytest.mark.parametrize(("grammar", "patterns", "prompt", "n"), GRAMMARS)
@ported(EBNF_KIT, "test_ebnf_generate")
async def test_texts_of_a_grammar(
    http: httpx.AsyncClient, grammar: str, patterns: list[str], prompt: str, n: int
):
    answers = await generate(http, prompt, n, ebnf=grammar)
    assert isinstance(answers, list), answers
    assert len(answers) == n
    for answer in answers:
        text = answer["text"].strip()
        assert text
        assert any(re.match(pattern, text) for pattern in patterns), text


async def chat(client: openai.AsyncOpenAI, content: str, **fields: Any) -> str:
    answer = await client.chat.completions.create(
        model=MODEL, messages=[SYSTEM, {"role": "user", "content": content}], temperature=0, **fields
    )
    return answer.choices[0].message.content


@ported(EBNF, "TestOpenAIServerEBNF.test_ebnf")
async def test_a_chats_answer_of_a_grammar(client: openai.AsyncOpenAI):
    grammar = '\n        root ::= "Hello" | "Hi" | "Hey"\n        '
    said = await chat(
        client, "Say a greeting (Hello, Hi, or Hey).", max_tokens=32, extra_body={"ebnf": grammar}
    )
    assert re.search(r"^(Hello|Hi|Hey)[.!?]*\s*$", said.strip())


@ported(EBNF, "TestOpenAIServerEBNF.test_ebnf_strict_json")
async def test_a_chats_json_of_a_grammar(client: openai.AsyncOpenAI):
    grammar = r"""
        root    ::= "{" pair "}"
        pair    ::= "\"name\"" ":" string
        string  ::= "\"" [A-Za-z]+ "\""
        """
    said = await chat(
        client,
        "Generate single key JSON with only letters.",
        max_tokens=64,
        extra_body={"ebnf": grammar},
    )
    assert re.search(r'^\{"name":"[A-Za-z]+"\}$', said.strip())


ASKED = "Introduce the capital of France. Return in a JSON format."


@ported(TAG, "TestStructuralTagXGrammarBackend.test_stag_constant_str_openai")
async def test_a_structural_tag_of_a_text(client: openai.AsyncOpenAI):
    answer = "The capital of France is Berlin."
    form = {"type": "structural_tag", "format": {"type": "const_string", "value": answer}}
    assert await chat(client, ASKED, max_tokens=128, response_format=form) == answer


@ported(TAG, "TestStructuralTagXGrammarBackend.test_stag_json_schema_openai")
async def test_a_structural_tag_of_a_schema(client: openai.AsyncOpenAI):
    form = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": SCHEMA}}
    assert is_city(await chat(client, ASKED, max_tokens=128, response_format=form))
