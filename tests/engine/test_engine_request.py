"""Parameters out of range are refused by name."""

from typing import Any

import pytest

from radixway.engine.errors import InvalidRequestError
from radixway.engine.sampling_params import SamplingParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", -1),
        ("min_tokens", -1),
        ("temperature", -0.1),
        ("temperature", 101),
        ("temperature", float("inf")),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_p", 1e-46),
        ("top_p", 1.1),
        ("top_p", float("nan")),
        ("top_k", -2),
        ("top_k", 2**31),
        ("top_k", 10**30),
        ("min_p", 1.5),
        ("presence_penalty", 2.5),
        ("frequency_penalty", -2.5),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 1e-300),
        ("repetition_penalty", 101),
        ("repetition_penalty", float("nan")),
        ("seed", 2**64),
        ("seed", -(2**63) - 1),
        ("stop", ("",)),
        ("stop_token_ids", frozenset({-1})),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {1: float("nan")}),
        ("logprobs", -1),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError, match=field) as caught:
        SamplingParams(**{field: value})
    assert caught.value.field == field
    assert isinstance(caught.value, ValueError)


def test_more_tokens_cannot_be_due_than_allowed() -> None:
    with pytest.raises(InvalidRequestError, match="min_tokens must be at most max_tokens"):
        SamplingParams(max_tokens=3, min_tokens=4)
    SamplingParams(max_tokens=4, min_tokens=4)


def test_the_edges_of_the_ranges_are_allowed() -> None:
    SamplingParams(max_tokens=0, temperature=0, top_p=1, top_k=0, min_p=1, presence_penalty=-2, logprobs=0)
    SamplingParams(seed=-(2**63), repetition_penalty=100, frequency_penalty=2, top_k=-1, logprobs=100)
    SamplingParams(seed=2**64 - 1, repetition_penalty=0.01, top_p=1e-6, temperature=100, top_k=2**31 - 1)


def test_the_largest_signed_seed_can_be_counted_on_from() -> None:
    for choice in range(128):
        SamplingParams(seed=2**63 - 1 + choice)
