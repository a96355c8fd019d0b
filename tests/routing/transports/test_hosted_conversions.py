"""Chat completions as hosted providers take them, and bodies and answers that are wrong in every place."""

import contextlib
import json
from copy import deepcopy
from functools import partial

import pytest
from google.genai.types import FinishReason

from radixway.core.http import BadBodyError
from radixway.core.http.server_sent_events import iterate_data, write_event
from radixway.core.pipeline import CHAT_COMPLETIONS, BadRequest, Request, StreamBrokenError
from radixway.core.telemetry import Journal
from radixway.routing.transports.hosted.anthropic_api import AnthropicReader, build_messages_body
from radixway.routing.transports.hosted.base import StreamRefusedError
from radixway.routing.transports.hosted.bedrock_api import BedrockReader, build_converse_body
from radixway.routing.transports.hosted.chat_body import ChatBody
from radixway.routing.transports.hosted.chat_events import (
    UNREADABLE,
    CompletionForm,
    ConvertedEvents,
)
from radixway.routing.transports.hosted.gemini_api import GeminiReader, build_generate_body
from radixway.routing.transports.hosted.openai_api import OpenAIApi
from support.hosted_providers import PNG
from support.hosted_shapes import (
    Scene,
    anthropic_events,
    anthropic_reply,
    bedrock_events,
    bedrock_reply,
    gemini_replies,
)
from support.hosted_types import check_request

BUILD = {
    "anthropic": partial(build_messages_body, model="claude-sonnet-4-5"),
    "bedrock": partial(build_converse_body, model="claude-sonnet-4-5"),
    "gemini": build_generate_body,
}
CALL = {"id": "functions.weather:0", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CALLED = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": CALL["id"], "content": "rain"},
]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def ask(**fields):
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}], **fields}).encode()
    return Request("r", CHAT_COMPLETIONS, CHAT_COMPLETIONS.path, Journal("r"), raw=raw, model="m")


def build(kind, **fields):
    """The provider's body, which its SDK takes."""
    body = BUILD[kind](ChatBody(ask(**fields)))
    check_request(kind, {"model": "claude-sonnet-4-5", **body} if kind == "anthropic" else body)
    return body


@pytest.mark.parametrize("kind", ["anthropic", "bedrock"])
@pytest.mark.parametrize(
    ("model", "is_newer"),
    [
        ("claude-opus-4-7", True),
        ("eu.anthropic.claude-sonnet-5-20260901-v1:0", True),
        ("claude-fable-5", True),
        ("claude-sonnet-4-20250514", False),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", False),
        ("claude-3-7-sonnet-latest", False),
    ],
)
def test_newer_claude_models_get_no_sampling_and_no_budget(kind, model, is_newer):
    convert = {"anthropic": build_messages_body, "bedrock": build_converse_body}[kind]

    def built(**fields):
        body = convert(ChatBody(ask(**fields)), model)
        check_request(kind, {"model": model, **body} if kind == "anthropic" else body)
        return json.dumps(body)

    sampled = built(temperature=0.5, top_p=0.9, top_k=5)
    assert ("temperature" in sampled, "top_k" in sampled) == (not is_newer, not is_newer)
    thinks = built(reasoning_effort="high")
    assert ("budget_tokens" in thinks, "adaptive" in thinks) == (not is_newer, is_newer)
    assert ("effort" in thinks) == is_newer


@pytest.mark.parametrize("kind", BUILD)
def test_ids_of_calls_are_such_as_providers_take(kind):
    body = json.dumps(build(kind, messages=CALLED, tools=[WEATHER]))
    assert ("functions_weather_0" in body, "functions.weather:0" in body) == (kind != "gemini", False)


def test_gemini_gets_googles_own_word_for_a_signature_that_is_not_at_hand():
    calls = [CALL, {**CALL, "id": "b"}]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "rain"} for call in calls]
    turns = [CALLED[0], {"role": "assistant", "tool_calls": calls}, *results]
    parts = build("gemini", messages=turns, tools=[WEATHER])["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["skip_thought_signature_validator", None]


@pytest.mark.parametrize("kind", BUILD)
def test_jpg_is_the_jpeg_that_providers_know(kind):
    image = {"type": "image_url", "image_url": {"url": f"data:image/jpg;base64,{PNG}"}}
    body = json.dumps(build(kind, messages=[{"role": "user", "content": [image]}]))
    assert "jpeg" in body and "jpg" not in body


@pytest.mark.parametrize("kind", BUILD)
def test_an_image_in_a_system_message_is_refused(kind):
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    with pytest.raises(BadBodyError, match="content"):
        build(kind, messages=[{"role": "system", "content": [image]}, CALLED[0]])


def test_openai_gets_no_empty_list_of_calls_and_no_signature_of_googles():
    signed = CALL | {"extra_content": {"google": {"thought_signature": "x"}}}
    turns = [
        CALLED[0],
        {"role": "assistant", "content": "hi", "tool_calls": [], "reasoning_content": "hm"},
        {"role": "assistant", "content": None, "tool_calls": [signed]},
        CALLED[2],
    ]
    request = ask(messages=turns)
    OpenAIApi().build_call(request, None, "gpt", None)
    check_request("openai", json.loads(request.raw))


def test_every_finish_reason_of_gemini_has_a_word_of_openais():
    told = {}
    for reason in FinishReason:
        reader = GeminiReader()
        list(reader.read_event({"candidates": [{"finishReason": reason.value}]}))
        told.setdefault(reader.finish_reason, []).append(reason.value)
    assert told.keys() == {"stop", "length", "content_filter"}
    assert told["length"] == ["MAX_TOKENS"]
    assert "SAFETY" in told["content_filter"] and "UNEXPECTED_TOOL_CALL" in told["stop"]


WHOLE = {
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {
            "role": "assistant",
            "content": "y",
            "tool_calls": [CALL],
            "thinking_blocks": [{"type": "thinking"}],
        },
        CALLED[2],
    ],
    "tools": [WEATHER],
    "tool_choice": "auto",
    "max_tokens": 5,
    "temperature": 0.5,
    "top_k": 3,
    "stop": ["a"],
    "reasoning_effort": "low",
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
    "user": "u",
    "n": 1,
}
ODD = [None, True, -1, 1e308, "x", [], [5], {}, {"a": 1}, [[]], {"error": 5}]


def altered(value):
    """Copies of `value`, each with something odd in one place."""

    def paths(part, at=()):
        if at:
            yield at
        for key in part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ():
            yield from paths(part[key], (*at, key))

    for *above, last in paths(value):
        for odd in ODD:
            copy = deepcopy(value)
            part = copy
            for key in above:
                part = part[key]
            part[last] = odd
            yield copy


@pytest.mark.parametrize("kind", BUILD)
def test_a_body_that_is_wrong_anywhere_is_a_clear_refusal(kind):
    refused = 0
    for body in altered(WHOLE):
        try:
            json.dumps(BUILD[kind](ChatBody(ask(**body))))
        except (BadRequest, BadBodyError) as error:
            assert error.param
            refused += 1
    assert refused > 50


SCENE = Scene(calls=[("weather", {"city": "Oslo"})], thinks="hm")
READ = {
    "anthropic": (AnthropicReader, anthropic_reply(SCENE), anthropic_events(SCENE)),
    "bedrock": (
        BedrockReader,
        bedrock_reply(SCENE),
        [{**event, "type": name} for name, event in bedrock_events(SCENE)],
    ),
    "gemini": (GeminiReader, gemini_replies(SCENE)[-1], gemini_replies(SCENE)),
}


@pytest.mark.parametrize("kind", READ)
def test_an_answer_that_is_wrong_anywhere_is_read_or_cannot_be_read(kind):
    create_reader, reply, events = READ[kind]
    for body in [*altered(reply), *ODD]:
        with contextlib.suppress(StreamRefusedError, *UNREADABLE):
            json.loads(CompletionForm(ask(), create_reader(), "m").encode_reply(body))
    for told in altered(events):
        reader = create_reader()
        try:
            for event in told:
                json.dumps(list(reader.read_event(event)))
        except (KeyError, TypeError, ValueError, AttributeError, StreamRefusedError):
            pass


@pytest.mark.parametrize("left_out", [0, 1, 2])
async def test_a_connection_that_is_lost_after_the_answer_costs_nothing(left_out):
    """`left_out`: how many of the last events are lost: `message_stop`, and the reason why it stops."""
    said = [write_event(json.dumps(event).encode()) for event in anthropic_events(Scene())]

    async def chunks():
        yield b"".join(said[: len(said) - left_out])
        raise StreamBrokenError("w", "the connection was reset")

    reader = AnthropicReader()
    events = ConvertedEvents(chunks(), "w", reader, CompletionForm(ask(stream=True), reader, "m"))
    if left_out < 2:
        assert b"".join([chunk async for chunk in events]).endswith(b"data: [DONE]\n\n")
        assert events.reported.completion_tokens == 5
    else:
        with pytest.raises(StreamBrokenError, match="reset"):
            async for _ in events:
                pass


@pytest.mark.parametrize("together", [1, 2])
async def test_words_that_come_with_an_error_are_sent_before_it(together):
    """`together`: how many of the last events, words and the error, come in one chunk."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    said = [write_event(json.dumps(event).encode()) for event in anthropic_events(Scene(breaks_with=error))]
    first = next(at for at, event in enumerate(said) if b"content_block_delta" in event) + 1
    rest = [event for event in said[first:] if b"content_block_stop" not in event]
    assert len(rest) == 2, "the other half of the words, and the error"

    async def chunks():
        yield b"".join(said[:first])
        for at in range(0, len(rest), together):
            yield b"".join(rest[at : at + together])

    reader = AnthropicReader()
    events = ConvertedEvents(chunks(), "w", reader, CompletionForm(ask(stream=True), reader, "m"))
    await events.read_beginning()
    sent = b""
    with pytest.raises(StreamBrokenError, match="Overloaded"):
        async for chunk in events:
            sent += chunk
    words = [json.loads(data)["choices"][0]["delta"].get("content") or "" for data in iterate_data(sent)]
    assert "".join(words) == Scene().text
