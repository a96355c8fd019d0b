"""What is not plainly English takes more likeness: the encoder and the verifier were made for English."""

from __future__ import annotations

import pytest

from radixway.core.config import SemanticCacheConfig
from radixway.semantics.cache import min_similarity
from radixway.semantics.cache.ngram_vectors import ngram_vector
from radixway.semantics.cache.verifier import verify
from radixway.semantics.cache.verifier.language import is_foreign, is_latin

ENGLISH = ["How do I cook rice?", "What is the café in Zürich like?", "hi", "42", "", "π is what?"]
BY_CHARACTERS = [
    "怎么做米饭", "ご飯の炊き方は", "밥은 어떻게 하나요", "Как сварить рис?",
    "كيف أطبخ الأرز؟", "चावल कैसे पकाएं?",
    "วิธีหุงข้าว", "Πώς μαγειρεύω ρύζι;", "用 Python 怎么读取文件", "Что такое API?",
]  # fmt: skip
LATIN_FOREIGN = [
    "Wie kocht man den Reis und was ist die Zeit?",
    "¿Cuál es la capital de la región del norte?",
]


@pytest.mark.parametrize("text", ENGLISH)
def test_english_takes_what_is_configured_for_it(text):
    assert not is_foreign(text) and is_latin(text)
    assert min_similarity(SemanticCacheConfig(), text, 0.85) == 0.85


@pytest.mark.parametrize("text", [*BY_CHARACTERS, *LATIN_FOREIGN])
def test_every_other_language_takes_nearly_the_same_text(text):
    assert is_foreign(text) and is_latin(text) == (text not in BY_CHARACTERS)
    config = SemanticCacheConfig()
    assert min_similarity(config, text, 0.85) == pytest.approx(0.94)
    assert 0.94 < min_similarity(config, text, 0.95) < 1
    assert 0.85 < min_similarity(config, text, 0.8) < 0.94
    assert min_similarity(config, text, 1) == 1


def test_a_threshold_that_is_set_is_what_counts():
    for section, least, wanted in (
        ({"ngram_threshold": 0.5}, 0.85, 0.5),
        ({"ngram_threshold": 0.99}, 0.85, 0.99),
        ({"similarity_threshold": 0.6}, 0.6, 0.94),
        ({"similarity_threshold": 1}, 0.9, 0.94),
    ):
        config = SemanticCacheConfig(**section)
        assert min_similarity(config, "怎么做米饭", least) == pytest.approx(wanted)
        assert min_similarity(config, "How do I cook rice?", least) == least


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("花呗怎么还款", "花呗怎么提前还款"),
        ("什么牌子的空调好", "什么牌子的冰箱好用"),
        ("这个字怎么读", "这个字怎么写"),
        ("Как доехать до Москвы из Казани?", "Как доехать до Москвы из Самары?"),
    ],
)
def test_questions_that_differ_in_a_word_have_no_answer_in_common(one, other):
    cosine = float(ngram_vector(one) @ ngram_vector(other))
    assert cosine < min_similarity(SemanticCacheConfig(), one, 0.85)


def test_the_same_question_in_other_little_words_is_still_found():
    one, other = "请问怎么做红烧肉", "红烧肉怎么做呢"
    cosine = float(ngram_vector(one) @ ngram_vector(other))
    assert verify(one, one, 1.0).same and cosine > 0.5
