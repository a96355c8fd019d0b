"""`/generate_stream` as clients of Text Generation Inference read it."""

import asyncio
import json
from typing import Any

import pytest

from radixway.core.http.server_sent_events import iterate_data
from support.scripted_engine import ANSWER
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


BAD_REGEX = {"type": "regex", "value": "("}
BAD_SCHEMA = {"type": "json", "value": 5}


async def stream(served: Served, inputs: str = "hello", **parameters: Any) -> list[dict[str, Any]]:
    """The data of each event."""
    response = await served.post("/generate_stream", {"inputs": inputs, "parameters": parameters})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    return [json.loads(data) for data in iterate_data(response.content)]


async def test_each_token_is_an_event_and_the_last_has_the_text(served: Served) -> None:
    events = await stream(served, details=True, seed=7)
    assert [event["index"] for event in events] == list(range(1, len(served.engine.script) + 2))
    assert [event["token"]["id"] for event in events] == [*served.engine.script, served.engine.eos]
    *tokens, eos = events
    assert "".join(event["token"]["text"] for event in tokens) == ANSWER
    assert all(event["generated_text"] is event["details"] is None for event in tokens)
    assert eos["token"]["special"] and not tokens[0]["token"]["special"]
    assert eos["generated_text"] == ANSWER
    prompt, params, *_ = served.engine.submitted[0]
    assert eos["details"] == {
        "finish_reason": "eos_token",
        "generated_tokens": len(events),
        "seed": 7,
        "input_length": len(prompt),
    }
    assert (params.temperature, params.max_tokens) == (0, 100)


async def test_why_a_stream_ended(served: Served) -> None:
    *_, cut = await stream(served, details=True, max_new_tokens=2)
    assert cut["details"]["finish_reason"] == "length" and cut["details"]["generated_tokens"] == 2
    *_, stopped = await stream(served, details=True, stop=["42"])
    assert stopped["details"]["finish_reason"] == "stop_sequence"
    assert served.engine.submitted[1][1].include_stop
    *_, plain = await stream(served)
    assert plain["details"] is None and plain["generated_text"] == ANSWER


async def test_what_draws_makes_the_answer_drawn(served: Served) -> None:
    await stream(served, do_sample=True)
    await stream(served, temperature=0.5, top_k=5, top_p=0.5, repetition_penalty=1.1, frequency_penalty=0.1)
    await stream(served, top_p=0.5)
    drawn, shaped, by_top_p = (params for _, params, *_ in served.engine.submitted)
    assert (drawn.temperature, drawn.top_k, drawn.top_p) == (1.0, -1, 1.0)
    assert (shaped.temperature, shaped.top_k, shaped.top_p) == (0.5, 5, 0.5)
    assert (shaped.repetition_penalty, shaped.frequency_penalty) == (1.1, 0.1)
    assert (by_top_p.temperature, by_top_p.top_p) == (1.0, 0.5)


async def test_a_prompt_may_be_cut_and_repeated_and_alternatives_named(served: Served) -> None:
    events = await stream(served, "one two three", truncate=2, return_full_text=True, top_n_tokens=3)
    ids = served.engine.tokenizer.encode("one two three")
    assert served.engine.submitted[0][0] == ids[-2:]
    assert events[-1]["generated_text"] == f"one two three{ANSWER}"
    assert [top["id"] for top in events[0]["top_tokens"]] == [0, 1, 2]


async def test_the_text_follows_a_grammar(guide: Served) -> None:
    grammar = {"type": "regex", "value": "(yes|no) [0-9]{2}"}
    *_, last = await stream(guide, "Is it?", grammar=grammar)
    answer, _, number = last["generated_text"].partition(" ")
    assert answer in ("yes", "no") and number.isdigit()
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]} | {
        "additionalProperties": False
    }
    for grammar in ({"type": "json", "value": schema}, {"type": "json_schema", "value": {"schema": schema}}):
        *_, last = await stream(guide, "Is it?", grammar=grammar)
        assert isinstance(json.loads(last["generated_text"])["a"], bool)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "inputs"),
        ({"inputs": ""}, "inputs"),
        ({"inputs": "x " * 900}, "inputs"),
        ({"inputs": "x", "parameters": {"max_new_tokens": 0}}, "parameters.max_new_tokens"),
        ({"inputs": "x", "parameters": {"max_new_tokens": 9_999}}, "parameters.max_new_tokens"),
        ({"inputs": "x", "parameters": {"temperature": -1}}, "parameters.temperature"),
        ({"inputs": "x", "parameters": {"stop": [""]}}, "parameters.stop"),
        ({"inputs": "x", "parameters": {"truncate": 0}}, "parameters.truncate"),
        ({"inputs": "x", "parameters": {"typical_p": 0.5}}, "parameters.typical_p"),
        ({"inputs": "x", "parameters": {"watermark": True}}, "parameters.watermark"),
        ({"inputs": "x", "parameters": {"best_of": 2}}, "parameters.best_of"),
        ({"inputs": "x", "parameters": {"adapter_id": "a"}}, "parameters.adapter_id"),
        ({"inputs": "x", "parameters": {"top_n_tokens": 99}}, "parameters.top_n_tokens"),
        ({"inputs": "x", "parameters": {"grammar": BAD_REGEX}}, "parameters.grammar.value"),
        ({"inputs": "x", "parameters": {"grammar": BAD_SCHEMA}}, "parameters.grammar.value"),
    ],
)  # fmt: skip
async def test_errors_have_tgis_form_and_name_the_field(
    served: Served, body: dict[str, Any], param: str
) -> None:
    response = await served.post("/generate_stream", body)
    assert response.status_code == 400
    assert (response.json()["error_type"], response.json()["param"]) == ("validation", param)
    assert isinstance(response.json()["error"], str)


async def test_a_stream_that_fails_or_is_aborted_ends_with_an_error(served: Served) -> None:
    served.engine.fails_after = 3
    *tokens, failed = await stream(served)
    assert len(tokens) == 3 and failed["error"] == "the model caught fire"
    served.engine.reset()
    served.engine.hold_after = 1
    asking = asyncio.create_task(stream(served))
    await served.engine.holding.wait()
    served.app.service.abort_all_requests()
    assert (await asking)[-1]["error"] == "the request was aborted"
    served.engine.reset()
    served.engine.room = 0
    full = await served.post("/generate_stream", {"inputs": "x"})
    assert full.status_code == 429 and full.json()["error_type"] == "overloaded"
