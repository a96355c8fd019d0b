"""Tokens of reasoning are counted to its end, however they come."""

import pytest

from radixway.core.parsers import ReasoningTokenCounter
from radixway.core.parsers.parts import ThinkingPlace


@pytest.mark.parametrize(
    ("place", "text", "count"),
    [
        ("before", "<think>a</think>b", 16),
        ("before", " \n<think>a", 10),
        ("before", "<thin", 0),
        ("before", "a<think>b</think>", 0),
        ("inside", "a</think>b</think>", 9),
        ("inside", "</thin", 6),
        ("after", "<think>a</think>", 0),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_tokens_are_counted_to_the_end_of_the_reasoning(
    place: ThinkingPlace, text: str, count: int, size: int
) -> None:
    counter = ReasoningTokenCounter(place)
    tokens = [bytes([byte]) for byte in text.encode()]
    told = [counter.count_tokens(tokens[at : at + size]) for at in range(0, len(tokens), size)]
    assert (told[-1], counter.count) == (count, count) and told == sorted(told)
