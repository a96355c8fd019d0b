"""Constraints over HTTP: what the bundled model says under them, on every surface."""

import json
import re
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODEL = "radixway-guide"
ASK: list[Any] = [{"role": "user", "content": "What is a prefix cache?"}]
NUMBER = "[0-9]{3}-[0-9]{4}"
NUMBER_GRAMMAR = 'root ::= [0-9]{3} "-" [0-9]{4}'


class Note(BaseModel, extra="forbid"):
    title: str = Field(max_length=20)
    kind: Literal["good", "bad"]
    stars: int = Field(ge=1, le=5)


SCHEMA = Note.model_json_schema()


@pytest.mark.parametrize("strict", [True, False])
async def test_a_json_schema_is_followed(guide: Served, strict: bool) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "note", "schema": SCHEMA, "strict": strict}}
    reply = await guide.openai.chat.completions.create(
        model=MODEL, messages=ASK, response_format=form, n=4, seed=1, temperature=1.2, max_tokens=200
    )
    assert {choice.finish_reason for choice in reply.choices} == {"stop"}
    notes = [Note.model_validate_json(choice.message.content or "") for choice in reply.choices]
    assert len({note.title for note in notes}) > 1


async def test_the_sdk_parses_into_a_pydantic_model(guide: Served) -> None:
    reply = await guide.openai.chat.completions.parse(
        model=MODEL, messages=ASK, response_format=Note, max_tokens=200, temperature=0
    )
    assert isinstance(reply.choices[0].message.parsed, Note)


async def test_json_object_is_any_object(guide: Served) -> None:
    reply = await guide.openai.chat.completions.create(
        model=MODEL,
        messages=ASK,
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=300,
        logit_bias={},
    )
    choice = reply.choices[0]
    text = choice.message.content or ""
    assert text.startswith("{")
    assert choice.finish_reason == "length" or isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({"guided_regex": NUMBER}, NUMBER),
        ({"guided_choice": ["yes", "no", "не знаю"]}, "yes|no|не знаю"),
        ({"guided_grammar": NUMBER_GRAMMAR}, NUMBER),
        ({"regex": NUMBER}, NUMBER),
        ({"ebnf": NUMBER_GRAMMAR}, NUMBER),
        ({"structured_outputs": {"regex": NUMBER}}, NUMBER),
        ({"structured_outputs": {"choice": ["yes", "yes!"]}}, "yes!?"),
        ({"structured_outputs": {"grammar": 'start: /[0-9]{3}/ "-" /[0-9]{4}/'}}, NUMBER),
        (
            {
                "structured_outputs": {
                    "json": {"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 2},
                    "disable_any_whitespace": True,
                }
            },
            r"\[1,1\]",
        ),
        ({"guided_json": '{"enum": [1, 2]}'}, "[12]"),
        ({"response_format": {"type": "text"}, "max_tokens": 3}, "(?s:.+)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
async def test_vllms_and_sglangs_fields_mean_the_same(guide: Served, fields: Any, form: str) -> None:
    for path, prompt in (
        ("/v1/chat/completions", {"messages": ASK}),
        ("/v1/completions", {"prompt": "A prefix cache"}),
    ):
        body = {**prompt, "temperature": 1.5, "seed": 4, "n": 2, "max_tokens": 60, **fields}
        reply = (await guide.post(path, body)).json()
        texts = [c["message"]["content"] if "message" in c else c["text"] for c in reply["choices"]]
        assert all(re.fullmatch(form, text) for text in texts), texts


async def test_a_stream_is_constrained_too_and_ends_with_usage(guide: Served) -> None:
    stream = await guide.openai.chat.completions.create(
        model=MODEL,
        messages=ASK,
        stream=True,
        stream_options={"include_usage": True},
        logprobs=True,
        extra_body={"guided_regex": f"{NUMBER}( {NUMBER}){{3}}"},
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert re.fullmatch(f"{NUMBER}( {NUMBER}){{3}}", text)
    entries = [
        e for c in chunks if c.choices and c.choices[0].logprobs for e in c.choices[0].logprobs.content or []
    ]
    assert b"".join(bytes(entry.bytes or []) for entry in entries).decode() == text
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == len(entries)


async def test_generate_takes_sglangs_sampling_params(guide: Served) -> None:
    sampling = [
        {"regex": NUMBER},
        {"json_schema": json.dumps(SCHEMA), "max_new_tokens": 200},
        {"ebnf": NUMBER_GRAMMAR},
        {"max_new_tokens": 4, "temperature": 0},
    ]
    body = {"text": ["a phone number: "] * 4, "sampling_params": sampling}
    number, note, again, free = (await guide.post("/generate", body)).json()
    assert re.fullmatch(NUMBER, number["text"]) and re.fullmatch(NUMBER, again["text"])
    assert Note.model_validate_json(note["text"]) and free["meta_info"]["completion_tokens"] == 4
    assert note["meta_info"]["finish_reason"]["type"] == "stop"


@pytest.mark.parametrize(
    ("sampling", "param"),
    [
        ({"regex": "("}, "sampling_params.regex"),
        ({"regex": 5}, "sampling_params.regex"),
        ({"json_schema": "{"}, "sampling_params.json_schema"),
        ({"json_schema": '{"type": "thing"}'}, "sampling_params.json_schema"),
        ({"ebnf": "root ::= nowhere"}, "sampling_params.ebnf"),
        ({"ebnf": 'root ::= "a"', "regex": "a"}, "sampling_params.ebnf"),
        ({"structural_tag": "x"}, "sampling_params.structural_tag"),
    ],
)
async def test_generate_names_the_constraint_that_cannot_be_used(
    guide: Served, sampling: Any, param: str
) -> None:
    response = await guide.post("/generate", {"text": "x", "sampling_params": sampling})
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


async def test_without_the_library_a_constraint_is_a_400_that_says_what_to_install(
    guide: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    response = await guide.chat(guided_regex="not compiled before")
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (400, "guided_regex", "unsupported")
    assert "radixway[engine]" in error["message"]
