"""What is reserved for a request, whatever its body says."""

import json

import pytest

from radixway.core.config import ModelPricing
from radixway.core.pipeline import Request
from radixway.core.pipeline.endpoints import CHAT_COMPLETIONS, COMPLETIONS, GENERATE, ParsedRequest
from radixway.core.telemetry import Journal
from radixway.core.tenants.pricing import USUAL_COMPLETION_TOKENS, estimate_request, estimate_usage
from radixway.core.work_slices import run_at_once


def expected(**body) -> int:
    return estimate_usage(json.dumps(body).encode())[1]


@pytest.mark.parametrize(
    "body",
    [
        {"max_tokens": -(10**9)},
        {"n": -5},
        {"text": "x", "sampling_params": {"n": -1000, "max_new_tokens": 10}},
        {"max_completion_tokens": -1, "best_of": -3},
    ],
)
def test_no_figure_of_a_body_makes_room_for_other_requests(body):
    assert expected(**body) > 0


def test_a_wrong_type_hides_no_other_figure():
    assert expected(max_tokens="x", text="x", sampling_params={"max_new_tokens": 5000}) == 5000
    assert expected(sampling_params=[{"max_new_tokens": 1}, {"max_new_tokens": 5000}]) == 5000
    assert expected(max_tokens=4000.0, n="many") == 4000
    assert expected(sampling_params=5, n=None) == USUAL_COMPLETION_TOKENS


def test_several_prompts_and_copies_are_counted_however_they_are_given():
    assert expected(input_ids=[[1, 2], [3], [4]], sampling_params={"max_new_tokens": 10}) == 30
    assert expected(input_ids=[1, 2, 3], sampling_params={"max_new_tokens": 10}) == 10
    assert expected(prompt="x", max_tokens=10, best_of=4) == 40


@pytest.mark.parametrize(
    ("endpoint", "fields"),
    [
        (CHAT_COMPLETIONS, {"messages": [{"role": "user", "content": "x"}], **fields})
        for fields in (
            {},
            {"max_tokens": 10},
            {"max_completion_tokens": 20},
            {"max_tokens": 10, "max_completion_tokens": 20, "n": 3},
            {"max_tokens": 20, "max_completion_tokens": 10},
            {"max_tokens": 10, "max_completion_tokens": 0},
            {"max_tokens": 0},
            {"max_tokens": 10, "best_of": 4, "n": 2},
            {"max_tokens": 10**15, "n": 10**15},
        )
    ]
    + [
        (COMPLETIONS, {"prompt": prompt, "max_tokens": 10, **fields})
        for prompt in ("x", ["x", "y"], [1, 2, 3], [[1], [2, 3]])
        for fields in ({}, {"n": 2}, {"best_of": 3})
    ]
    + [
        (GENERATE, fields)
        for fields in (
            {"text": "x"},
            {"text": "x", "max_tokens": 10},
            {"text": ["x", "y"], "sampling_params": {"max_new_tokens": 10}},
            {"text": "x", "sampling_params": {"max_new_tokens": 10}},
            {"text": "x", "sampling_params": {"max_new_tokens": 10, "n": 3}},
            {"input_ids": [[1], [2]], "sampling_params": [{"max_new_tokens": 5}, {"max_new_tokens": 10}]},
        )
    ],
)
def test_what_the_endpoint_read_gives_the_same_estimate_as_the_body(endpoint, fields):
    raw = json.dumps(fields).encode()
    request = Request(id="r", endpoint=endpoint, path="/", journal=Journal("r"), raw=raw)
    assert request.parsed is None and estimate_request(request) == estimate_usage(raw)
    request.note_parsed(endpoint.read(raw))
    assert request.parsed is not None and estimate_request(request) == estimate_usage(raw)


@pytest.mark.parametrize("count", [1, 20_000], ids=["small", "large"])
@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({"max_completion_tokens": 9000}, 9000),
        ({"max_completion_tokens": 9000, "max_tokens": 1}, 9000),
        ({"max_completion_tokens": 1, "max_tokens": 9000}, 9000),
        ({"max_completion_tokens": 1}, 1),
    ],
)
def test_a_second_limit_of_the_answer_lowers_no_reservation(count, fields, answers):
    raw = json.dumps({"messages": [{"role": "user", "content": "word"}] * count, **fields}).encode()
    request = Request(id="r", endpoint=CHAT_COMPLETIONS, path="/", journal=Journal("r"), raw=raw)
    assert estimate_request(request)[1] == answers
    request.note_parsed(run_at_once(CHAT_COMPLETIONS.read_in_slices(raw)))
    assert request.parsed is not None and request.parsed.max_answer_tokens == answers
    assert estimate_request(request)[1] == answers


def test_the_body_is_read_for_an_estimate_only_once_it_was_edited():
    raw = b'{"messages": [], "max_tokens": 10}'
    request = Request(id="r", endpoint=CHAT_COMPLETIONS, path="/", journal=Journal("r"), raw=raw)
    request.note_parsed(ParsedRequest("m", answers=3, max_answer_tokens=7))
    assert estimate_request(request)[1] == estimate_request(request.copy())[1] == 21
    request.edit(max_tokens=30)
    assert estimate_request(request)[1] == 30


def test_figures_of_any_size_have_a_price():
    prompt, answers = estimate_usage(b'{"n": 9%s, "max_tokens": 9%s}' % (b"9" * 400, b"9" * 400))
    assert ModelPricing(completion_per_1m=2).cost(prompt, answers) > 0
