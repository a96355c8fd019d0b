import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

import radixway.bundled
from evaluation.scores import score
from radixway.semantics.encoders import EncoderError
from radixway.semantics.encoders.heads import HeadFile
from radixway.semantics.encoders.heads.domain_head import DomainHead
from radixway.semantics.encoders.heads.ngrams import text_features

FILE = Path(radixway.bundled.__file__).parent / "heads" / "domain.npz"
QUESTIONS = [
    ("Explain the causes of World War I.", "history"),
    ("证明费马大定理", "math"),
    ("Why do plants need light for photosynthesis?", "biology"),
    ("How should a startup price its product to win customers?", "business"),
    ("Balance the equation Fe + O2 -> Fe2O3", "chemistry"),
    ("用Python写一个快速排序函数", "computer science"),
    ("央行加息对经济增长和汇率有什么影响？", "economics"),
    ("感冒咳嗽应该吃什么药？", "health"),
    ("公司拖欠工资，我可以申请劳动仲裁吗？", "law"),
    ("Is utilitarianism a plausible theory of ethics?", "philosophy"),
    ("What is the kinetic energy of a 2 kg ball at 3 m/s?", "physics"),
    ("推荐一道简单的家常菜谱", "other"),
]


@pytest.fixture(scope="session")
def head(minilm):
    return DomainHead.load_file(FILE, minilm)


def read(head, encoder, text):
    return head.classify_domain(text, encoder.encode([text])[0])


@pytest.mark.parametrize(("text", "label"), QUESTIONS)
def test_the_shipped_head_knows_plain_questions_in_both_languages(head, minilm, text, label):
    assert read(head, minilm, text).label == label


def test_a_reading_is_a_distribution_over_the_fourteen_labels(head, minilm):
    reading = read(head, minilm, "Solve for x: 3x + 7 = 22")
    assert len(reading.distribution) == 14
    assert math.isclose(sum(reading.distribution.values()), 1, abs_tol=1e-6)
    assert reading.confidence == reading.distribution[reading.label] == max(reading.distribution.values())
    assert 0 <= reading.entropy <= 1


@pytest.mark.parametrize("text", ["", "?", "\ud800", "안녕하세요", "a" * 20_000, "病" * 20_000])
def test_any_text_gets_a_reading(head, minilm, text):
    vector = minilm.encode(["text"])[0]
    assert math.isclose(sum(head.classify_domain(text, vector).distribution.values()), 1, abs_tol=1e-6)


def test_certain_readings_have_less_entropy_than_uncertain_ones(head, minilm):
    certain = read(head, minilm, "Calculate the derivative of x^2 and the integral of sin(x).")
    uncertain = read(head, minilm, "things")
    assert certain.entropy < uncertain.entropy


def test_another_encoders_head_is_refused(head, minilm, tmp_path):
    head = dataclasses.replace(HeadFile.load_file(FILE, kind="domain"), weights="0" * 64)
    head.save_file(tmp_path / "head.npz")
    with pytest.raises(EncoderError, match="retrain it"):
        DomainHead.load_file(tmp_path / "head.npz", minilm)


def test_a_head_with_an_array_of_another_shape_is_refused():
    head = HeadFile.load_file(FILE, kind="domain")
    arrays = {**head.arrays, "han_bias": np.zeros(3, np.float32)}
    with pytest.raises(EncoderError, match="han_bias has shape"):
        DomainHead(dataclasses.replace(head, arrays=arrays))


def test_a_head_that_lacks_an_array_is_refused():
    head = HeadFile.load_file(FILE, kind="domain")
    arrays = {name: array for name, array in head.arrays.items() if name != "latin_ngrams"}
    with pytest.raises(EncoderError, match="lacks 'latin_ngrams'"):
        DomainHead(dataclasses.replace(head, arrays=arrays))


def test_chinese_is_read_by_pieces_of_one_to_four_characters():
    features = text_features("费马大定理", 1 << 20)
    assert features.han_share == 1
    assert int(features.pieces.counts.sum()) == 5 + 4 + 3 + 2
    assert len(features.words.buckets) == 0


def test_case_width_and_the_value_of_numbers_do_not_matter():
    one, other = text_features("ＡＢＣ in 1914", 1 << 16), text_features("abc IN 1918", 1 << 16)
    assert np.array_equal(one.words.buckets, other.words.buckets)
    assert np.array_equal(one.pieces.buckets, other.pieces.buckets)


def test_features_in_fewer_buckets_are_those_that_were_hashed_into_them():
    text = "to be or not to be: 费马大定理 费马 " * 9
    narrow, direct = text_features(text, 1 << 32).fold_buckets(64), text_features(text, 64)
    for one, other in ((narrow.words, direct.words), (narrow.pieces, direct.pieces)):
        assert np.array_equal(one.buckets, other.buckets)
        assert np.array_equal(one.counts, other.counts)


def test_pieces_stay_within_words():
    apart, together = text_features("ab cd", 1 << 20), text_features("abcd", 1 << 20)
    assert not set(apart.pieces.buckets) & set(together.pieces.buckets)


def test_scores_count_what_was_taken_for_what(head, minilm):
    readings = [read(head, minilm, text) for text, _ in QUESTIONS[:2]]
    scores = score(["history", "law"], readings)
    assert scores.accuracy == 0.5
    assert scores.confusion == {"history": {"history": 1}, "law": {"math": 1}}
    gap = abs(1 - readings[0].confidence) / 2 + readings[1].confidence / 2
    same_bin = int(readings[0].confidence * 15) == int(readings[1].confidence * 15)
    both = abs(readings[0].confidence + readings[1].confidence - 1) / 2
    assert math.isclose(scores.calibration_error, both if same_bin else gap, rel_tol=1e-6)
