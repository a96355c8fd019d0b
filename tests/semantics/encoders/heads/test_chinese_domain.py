"""The Chinese side of the domain head."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import radixway.bundled
from radixway.semantics.encoders import EncoderError
from radixway.semantics.encoders.heads import HeadFile
from radixway.semantics.encoders.heads.chinese_domain import HASHES, ChineseSoftmax, hashed_pieces
from radixway.semantics.encoders.heads.domain_head import DomainHead
from radixway.semantics.encoders.heads.ngrams import text_features

FILE = Path(radixway.bundled.__file__).parent / "heads" / "domain.npz"
QUESTIONS = [
    ("证明费马大定理", "math"),
    ("證明費馬大定理", "math"),
    ("请分析我们公司的市场营销策略，并给出提高利润的建议", "business"),
    ("房东不退押金怎么办", "law"),
    ("膝盖疼，上下楼梯的时候特别厉害", "health"),
    ("为什么我总是拖延", "psychology"),
    ("帮我写一张请假条", "other"),
    ("通货膨胀对利率有什么影响", "economics"),
    ("康德的绝对命令是什么意思", "philosophy"),
    ("唐朝为什么会灭亡", "history"),
    ("我的Java程序报空指针异常", "computer science"),
    ("三相电机的启动电流怎么计算", "engineering"),
    ("薛定谔方程的物理意义", "physics"),
    ("光合作用的光反应在哪里进行", "biology"),
    ("实验室怎么制取氯气，写出化学方程式", "chemistry"),
]


@pytest.fixture(scope="session")
def head(minilm):
    return DomainHead.load_file(FILE, minilm)


@pytest.fixture(scope="session")
def table():
    return ChineseSoftmax.from_head(HeadFile.load_file(FILE, kind="domain"))


def read(head, encoder, text):
    return head.classify_domain(text, encoder.encode([text])[0])


@pytest.mark.parametrize(("text", "label"), QUESTIONS)
def test_the_shipped_head_knows_everyday_chinese(head, minilm, text, label):
    assert read(head, minilm, text).label == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("用Python写一个爬虫", "computer science"),
        ("帮我debug这段JavaScript代码，Uncaught TypeError", "computer science"),
        ("Explain the light reactions of photosynthesis (光合作用) in simple terms", "biology"),
    ],
)
def test_a_text_in_two_languages_is_read_in_both(head, minilm, text, label):
    assert read(head, minilm, text).label == label


@pytest.mark.parametrize(
    "text", ["こんにちは、おげんきですか", "안녕하세요 반갑습니다", "Привет, как дела", "สวัสดี"]
)
def test_scripts_that_nothing_was_learnt_of_get_no_confident_label(head, minilm, text):
    reading = read(head, minilm, text)
    assert reading.confidence < 0.6
    assert reading.entropy > 0.4


@pytest.mark.parametrize("text", ["嗯嗯", "好的，谢谢你", "龘靐齉"])
def test_chinese_that_says_nothing_is_other(head, minilm, text):
    assert read(head, minilm, text).label == "other"


def test_pieces_that_training_never_saw_count_nothing(table):
    seen = hashed_pieces(text_features("费马", HASHES))[0]
    keep = np.isin(table.pieces, seen)
    small = dataclasses.replace(
        table, pieces=table.pieces[keep], weights=table.weights[keep], rarity=table.rarity[keep]
    )
    assert np.array_equal(small.logits(text_features("通货膨胀", HASHES)), table.bias)
    assert np.allclose(
        small.logits(text_features("费马", HASHES)), small.logits(text_features("费马＠通货", HASHES))
    )


def test_a_table_that_is_written_is_read_as_it_was(table):
    head = HeadFile.load_file(FILE, kind="domain")
    again = ChineseSoftmax.from_head(dataclasses.replace(head, arrays={**head.arrays, **table.arrays()}))
    features = text_features("证明费马大定理", HASHES)
    assert np.array_equal(again.probabilities(features), table.probabilities(features))


def test_a_chinese_table_of_another_shape_is_refused():
    head = HeadFile.load_file(FILE, kind="domain")
    arrays = {**head.arrays, "han_weights": head.arrays["han_weights"][:, :3]}
    with pytest.raises(EncoderError, match="han_weights has shape"):
        DomainHead(dataclasses.replace(head, arrays=arrays))


def test_kana_and_hangul_are_foreign_and_ideographs_and_greek_are_not():
    assert text_features("こんにちは", HASHES).foreign_share == 1
    assert text_features("안녕", HASHES).foreign_share == 1
    assert text_features("求π的值", HASHES).foreign_share == 0
    assert text_features("漢字カナ", HASHES).foreign_share == 0.5
