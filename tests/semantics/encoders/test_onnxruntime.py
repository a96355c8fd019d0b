"""MiniLM in onnxruntime: what preparing it keeps of its figures, and what becomes of broken files."""

import logging

import numpy as np
import pytest

from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import EncoderError, load_encoder

TEXTS = [
    "How do I reset my password?",
    "Explain the causes of World War I.",
    "证明 2 的平方根是无理数",
    "Write a Python function that returns the n-th Fibonacci number in O(log n).",
    "What is the difference between a tort and a crime, and who bears the burden of proof in each?",
    "SELECT name FROM users WHERE id = 7; -- why is this slow?",
]


def test_int8_vectors_are_near_those_of_float32(minilm, int8):
    pairs = zip(minilm.encode(TEXTS), int8.encode(TEXTS), strict=True)
    cosines = [float(exact.vector @ near.vector) for exact, near in pairs]
    assert np.mean(cosines) >= 0.99
    assert min(cosines) >= 0.98


def test_float32_in_onnxruntime_is_exact(minilm, encoders_home):
    onnx = load_encoder(EncodersConfig(backend="fp32", home=encoders_home))
    for exact, same in zip(
        minilm.encode(TEXTS, layers=(2, 4, 6)), onnx.encode(TEXTS, layers=(2, 4, 6)), strict=True
    ):
        np.testing.assert_allclose(same.vector, exact.vector, atol=1e-5)
        for layer in (2, 4, 6):
            np.testing.assert_allclose(same.states[layer], exact.states[layer], atol=1e-3)


def test_a_text_has_the_same_vector_whatever_is_read_with_it(int8):
    alone = [int8.encode([text])[0].vector for text in TEXTS]
    together = [encoding.vector for encoding in int8.encode(TEXTS)]
    np.testing.assert_array_equal(alone, together)


def test_precisions_can_be_told_apart_and_have_the_same_weights(minilm, int8):
    assert minilm.id.endswith("-fp32") and int8.id.endswith("-int8")
    assert minilm.weights == int8.weights


def test_a_model_is_prepared_once(encoders_home, int8, caplog):
    with caplog.at_level(logging.INFO, "radixway.semantics.encoders"):
        load_encoder(EncodersConfig(backend="int8", home=encoders_home))
    assert not caplog.records


def test_a_prepared_file_that_changed_is_made_again(tmp_path, minilm, caplog):
    config = EncodersConfig(home=tmp_path)
    load_encoder(config)
    (file,) = tmp_path.glob("*.onnx")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert load_encoder(config).encode(TEXTS[:1])[0].vector @ minilm.encode(TEXTS[:1])[0].vector > 0.98
    assert "is damaged; preparing it again" in caplog.text
    assert file.read_bytes() == whole
    assert {path.suffix for path in tmp_path.iterdir()} == {".onnx", ".sha256"}


def test_a_home_that_cannot_be_written_only_costs_time(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    encoder = load_encoder(EncodersConfig(backend="int8", home=tmp_path / "file" / "home"))
    assert encoder.id.endswith("-int8")
    assert "is prepared at every start" in caplog.text


@pytest.mark.parametrize("missing", ["onnxruntime", "onnx"])
def test_without_onnxruntime_or_what_prepares_for_it_numpy_runs_and_says_so(
    tmp_path, monkeypatch, caplog, missing
):
    hide(monkeypatch, missing)
    encoder = load_encoder(EncodersConfig(home=tmp_path))
    assert encoder.id.endswith("-fp32")
    assert [
        record.getMessage() for record in caplog.records if f"{missing} is missing" in record.getMessage()
    ]


def test_without_onnxruntime_int8_is_refused_where_it_was_asked_for(tmp_path, monkeypatch):
    hide(monkeypatch, "onnxruntime")
    with pytest.raises(EncoderError, match=r"radixway\[semantic\]"):
        load_encoder(EncodersConfig(backend="int8", home=tmp_path))


def hide(monkeypatch, package):
    from importlib.util import find_spec

    def found(name):
        return None if name == package else find_spec(name)

    monkeypatch.setattr("radixway.semantics.encoders.factory.find_spec", found)
