"""How likely models are to answer well, learnt from who did."""

import numpy as np
import pytest

from quality_fit import fit_quality, ridge, to_quality_head
from radixway.semantics.encoders import EncoderError
from radixway.semantics.encoders.heads.quality_head import PROBE, QualityHead


@pytest.fixture
def rows():
    draw = np.random.default_rng(3)
    vectors = draw.normal(size=(500, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    domains = draw.dirichlet([0.2] * 3, size=500).astype(np.float32)
    right = np.stack([vectors[:, 0] > 0, domains[:, 1] > 0.5], axis=1).astype(np.float32)
    return vectors, domains, right


def test_a_head_tells_who_answers_well_from_the_vector_and_the_domain(rows, minilm, tmp_path):
    vectors, domains, right = rows
    to_quality_head(fit_quality(vectors, domains, right, 1.0), ["a", "b"], minilm, "made up").save_file(
        tmp_path / "quality.npz"
    )
    head = QualityHead.read_file(tmp_path / "quality.npz")
    assert head.models == ("a", "b")
    quality = head.predict_quality(vectors, domains)
    assert quality.shape == (500, 2)
    assert ((quality > 0.5) == (right > 0)).mean() > 0.9
    np.testing.assert_allclose(head.predict_quality(vectors[7], domains[7]), quality[7], atol=1e-6)
    with pytest.raises(ValueError, match="domain"):
        head.predict_quality(vectors)


def test_a_head_of_the_vector_alone_needs_no_domain(rows, minilm):
    vectors, _, right = rows
    head = QualityHead(to_quality_head(fit_quality(vectors, None, right), ["a", "b"], minilm, ""))
    assert head.predict_quality(vectors).shape == (500, 2)


def test_arrays_of_another_shape_are_refused(rows, minilm):
    vectors, _, right = rows
    arrays = fit_quality(vectors, None, right)
    with pytest.raises(EncoderError, match="not of 3 models"):
        QualityHead(to_quality_head(arrays, ["a", "b", "c"], minilm, ""))
    with pytest.raises(EncoderError, match="lacks 'bias'"):
        QualityHead(to_quality_head({"vector": arrays["vector"]}, ["a", "b"], minilm, ""))


def test_ridge_without_penalty_is_exact_and_with_much_of_it_the_mean(rows):
    vectors, _, _ = rows
    targets = (vectors @ np.arange(8.0) + 3)[:, None].astype(np.float32)
    weights, bias = ridge(vectors, targets, 1e-9)
    np.testing.assert_allclose(weights[:, 0], np.arange(8.0), atol=1e-3)
    np.testing.assert_allclose(bias, 3, atol=1e-3)
    weights, bias = ridge(vectors, targets, 1e9)
    np.testing.assert_allclose(vectors @ weights + bias, np.full_like(targets, targets.mean()), atol=1e-3)


def test_a_head_knows_the_encoder_it_was_trained_with_whatever_its_precision(rows, minilm, int8):
    vectors = np.eye(500, minilm.size, dtype=np.float32)
    head = QualityHead(to_quality_head(fit_quality(vectors, None, rows[2]), ["a", "b"], minilm, ""))
    head.check_probe(minilm.encode([PROBE])[0].vector)
    head.check_probe(int8.encode([PROBE])[0].vector)
    with pytest.raises(EncoderError, match="another encoder"):
        head.check_probe(minilm.encode(["Something else altogether"])[0].vector)
    with pytest.raises(EncoderError, match="another encoder"):
        head.check_probe(np.ones(8, np.float32))
