"""What the verifier tells apart, and what it must not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import cache as evaluation
from radixway.core.config import EncodersConfig
from radixway.semantics.cache import verify
from radixway.semantics.cache.ngram_vectors import ngram_vector
from radixway.semantics.cache.verifier import bundled_head, verify_blind
from radixway.semantics.cache.verifier.chinese_rules import extract_numbers
from radixway.semantics.encoders import load_encoder


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(EncodersConfig())


@pytest.fixture(scope="module")
def served(encoder):
    """The pairs of a list that the cache, with its default thresholds, would answer one as the other."""

    def served(path, same):
        judged = evaluation.judge(evaluation.read_list(path, same=same), encoder, verify)
        return [(each.pair.one, each.pair.other) for each in judged if each.is_served(0.85)], len(judged)

    return served


def test_every_pair_of_the_must_miss_list_is_missed(served):
    hits, pairs = served(evaluation.MUST_MISS, False)
    assert pairs >= 200
    assert hits == []


def test_four_fifths_of_the_must_hit_list_are_hit(served):
    hits, pairs = served(evaluation.MUST_HIT, True)
    assert pairs >= 100
    assert len(hits) >= 0.8 * pairs
    assert {("法国的首都是哪里？", "什么是法国的首都？"), ("2+2 等于多少？", "计算 2 加 2")} <= set(hits)


def test_the_head_was_trained_with_the_encoder_that_ships(encoder):
    assert bundled_head().weights == encoder.weights


def test_without_the_encoders_cosine_the_words_alone_decide():
    pair = ("How do I reset my password?", "How can I reset my password?")
    assert verify_blind(*pair, 0.2).same
    assert verify_blind(*pair, 0.2) == verify_blind(*pair, 0.9)
    assert (
        verify_blind("Who painted the bridge?", "When does the bridge open again?", 0.99).reason == "asking"
    )


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ("Transfer 100 USD", "Transfer 200 USD", "numbers"),
        ("How far is 5 km", "How far is 5 miles", "numbers"),
        ("Who was Henry VII?", "Who was Henry VIII?", "numbers"),
        ("What is 5 - 3?", "What is 3 - 5?", "numbers"),
        ("Solve x + 5 = 12", "Solve x - 5 = 12", "numbers"),
        ("Why do cats purr?", "Why don't cats purr?", "negation"),
        ("Is that usual?", "Is that unusual?", "negation"),
        ("How do I enable it?", "How do I disable it?", "opposites"),
        ("Pros of tea", "Pros and cons of tea", "opposites"),
        ("Flights from London to Paris", "Flights from Paris to London", "direction"),
        ("Does the dog chase the cat?", "Does the cat chase the dog?", "direction"),
        ("I met Anna in the city", "I met Maria in the city", "names"),
        ("Write it in Python", "Write it in Java", "names"),
        ("What does get_user do", "What does set_user do", "code"),
        ("rm -r x", "rm -f x", "code"),
        ("When did it begin?", "Where did it begin?", "asking"),
        ("How do I play the violin?", "How do I play the cello?", "frame"),
        ("Wie ist das Wetter und was ist los", "What is the weather like in the city", "language"),
        ("Explain tea", "Explain how tea is grown in mountains of the north", "content"),
        ("从北京到上海怎么走", "从上海到北京怎么走", "direction"),
        ("三加五", "三加六", "numbers"),
        ("怎么开灯", "怎么关灯", "opposites"),
        ("可以吃吗", "不可以吃吗", "negation"),
    ],
)
def test_each_rule_tells_its_own_pairs_apart(one, other, reason):
    for pair in ((one, other), (other, one)):
        verdict = verify(*pair, 0.86)
        assert (verdict.same, verdict.reason) == (False, reason)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I lose weight?", "How can I lose weight?"),
        ("What is two plus two?", "What is 2 plus 2?"),
        ("Who is the president of the US?", "Who is the president of the United States?"),
        ("Please tell me what photosynthesis is", "What is photosynthesis?"),
        ("What is the difference between TCP and UDP?", "What is the difference between UDP and TCP?"),
        ("2+2 等于多少？", "计算 2 加 2"),
    ],
)
def test_other_words_for_the_same_pass(one, other):
    assert verify(one, other, 0.9).same and verify(other, one, 0.9).same


def test_numbers_are_read_in_chinese_too():
    assert extract_numbers("一千二百三十四") == [1234]
    assert extract_numbers("十二万") == [120_000]
    assert extract_numbers("二〇二四") == [2024]


words = st.text(
    st.sampled_from(list("abI VX1290.,-+*/^()'`_$€%° \n?US从到一十百万亿不吗的ü\ud800")), max_size=40
)


@given(words | st.text(max_size=60), words | st.text(max_size=60))
def test_any_two_texts_get_a_verdict_and_the_same_one_both_ways(one, other):
    assert verify(one, other, 0.9).same == verify(other, one, 0.9).same
    ngram_vector(one)


@given(words | st.text(max_size=60))
def test_a_text_is_the_same_as_itself(text):
    assert verify(text, text, 1.0).same
