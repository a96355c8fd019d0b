from dataclasses import replace

import numpy as np
import pytest

from radixway.semantics.encoders import EncoderError
from radixway.semantics.encoders.heads import HeadFile
from radixway.semantics.guard.pii.pii_head import LAYERS, PII_HEAD, PiiHead


@pytest.fixture(scope="module")
def find(one_encoder):
    head = PiiHead.load_file(PII_HEAD, one_encoder)

    def found(text):
        findings = head.find_spans(text, one_encoder.encode([text], layers=LAYERS)[0])
        return [(each.type, text[each.begin : each.end]) for each in findings if each.confidence >= 0.7]

    return found


def test_names_and_addresses_are_found_to_the_character(find):
    assert find("My name is John Smith and I live at 12 Main Street, Springfield, IL 62704.") == [
        ("PERSON", "John Smith"),
        ("STREET_ADDRESS", "12 Main Street, Springfield, IL 62704"),
    ]


def test_chinese_is_found_a_character_at_a_time(find):
    assert find("我叫王小明，今年34岁，住在北京市朝阳区建国路88号3栋502室。") == [
        ("PERSON", "王小明"),
        ("AGE", "34"),
        ("STREET_ADDRESS", "北京市朝阳区建国路88号3栋502室"),
    ]


def test_an_eponym_is_nobody(find):
    assert find("What does Newton's second law say about Fourier series?") == []


@pytest.mark.parametrize(
    "text", ["", "   \n", "\ud800", "\ud800 hello", "...", "\u0301\u0301", "🙂🙂", "\x00"]
)
def test_texts_without_words_have_nothing(find, text):
    assert find(text) == []


def test_a_head_of_another_encoder_is_refused(one_encoder, tmp_path):
    head = replace(HeadFile.load_file(PII_HEAD, kind="pii"), weights="0" * 64)
    head.save_file(tmp_path / "other.npz")
    with pytest.raises(EncoderError, match="trained with"):
        PiiHead.load_file(tmp_path / "other.npz", one_encoder)


def test_a_head_that_lacks_an_array_is_refused(one_encoder, tmp_path):
    head = HeadFile.load_file(PII_HEAD, kind="pii")
    arrays = {name: array for name, array in head.arrays.items() if name != "han_mix"}
    replace(head, arrays=arrays).save_file(tmp_path / "less.npz")
    with pytest.raises(EncoderError, match="han_mix"):
        PiiHead.load_file(tmp_path / "less.npz", one_encoder)


def test_the_shipped_head_is_small():
    assert PII_HEAD.stat().st_size < 1_100_000
    assert all(
        array.dtype != np.float64 for array in HeadFile.load_file(PII_HEAD, kind="pii").arrays.values()
    )
