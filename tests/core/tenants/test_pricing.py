"""What is reserved for a request, whatever its body says."""

import json

import pytest

from radixway.core.config import ModelPricing
from radixway.core.tenants.pricing import USUAL_COMPLETION_TOKENS, estimate_usage


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


def test_figures_of_any_size_have_a_price():
    prompt, answers = estimate_usage(b'{"n": 9%s, "max_tokens": 9%s}' % (b"9" * 400, b"9" * 400))
    assert ModelPricing(completion_per_1m=2).cost(prompt, answers) > 0
