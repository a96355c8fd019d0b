"""Words, and how far they tell documents apart."""

import math
from collections import Counter

import numpy as np
import pytest

from radixway.semantics.tools.lexical_index import Bm25Index, count_words, split_name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("get_stockPrice", "get stock Price"),
        ("math.triangle-area", "math triangle area"),
        ("PDF&URLTool", "PDF URL Tool"),
        ("mcp__github__createIssue", "mcp github create Issue"),
        ("weather", "weather"),
        ("___", ""),
    ],
)
def test_a_name_is_read_as_words(name, said):
    assert split_name(name) == said


def test_endings_and_common_words_do_not_count():
    assert count_words("Can you find me the flights?") == count_words("flight")
    assert count_words("booked booking") == Counter({"book": 2})
    assert count_words("studies") == count_words("study")


def test_chinese_is_read_by_characters_and_pairs():
    assert count_words("天气预报") == Counter(["天", "气", "预", "报", "天气", "气预", "预报"])


def test_full_width_letters_are_letters():
    assert count_words("ＷＥＢ") == Counter({"web": 1})


def test_scores_are_bm25_as_a_share_of_the_queries_most():
    documents = [Counter(a=2, b=1), Counter(b=1), Counter(c=3)]
    scores = Bm25Index(documents).score_query(Counter(a=1, b=1))
    norms = [1.2 * (0.25 + 0.75 * length / (7 / 3)) for length in (3, 1, 3)]
    a, b = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)
    expected = [
        (a * 2 / (2 + norms[0]) + b * 1 / (1 + norms[0])) / (a + b),
        b * 1 / (1 + norms[1]) / (a + b),
        0,
    ]
    assert scores == pytest.approx(expected)


def test_words_that_no_document_has_take_their_share():
    lexical = Bm25Index([Counter(a=1), Counter(b=1)])
    assert lexical.score_query(Counter(a=1, z=1))[0] < lexical.score_query(Counter(a=1))[0]
    assert not np.any(lexical.score_query(Counter())) and not np.any(lexical.score_query(Counter(z=1)))
