import dataclasses
from pathlib import Path

import numpy as np
import pytest

import radixway.bundled
from radixway.semantics.encoders import EncoderError
from radixway.semantics.encoders.heads import HeadFile
from radixway.semantics.encoders.heads.domain_head import DomainHead, ScriptSoftmax
from radixway.semantics.encoders.heads.kernel_density import LabelDensity, normalize_rows
from radixway.semantics.encoders.heads.ngrams import text_features

FILE = Path(radixway.bundled.__file__).parent / "heads" / "domain.npz"
BUCKETS = 8
POINTS = np.array([[1, 0], [0.8, 0.6], [0, 1]], np.float32)


def two_labels():
    """Label 0 has the first two points, label 1 the last."""
    return LabelDensity(np.eye(2, dtype=np.float32), np.zeros(2, np.float32), POINTS, np.array([2, 1]))


def table(neighbours):
    """Two labels in two styles, of which n-grams say nothing and the bias that exams are a bit likelier."""
    return ScriptSoftmax(
        ngrams=np.zeros((2 * BUCKETS, 4), np.int8),
        scale=np.ones(4, np.float32),
        rarity=np.ones(2 * BUCKETS, np.float16),
        bias=np.array([0, 0, 0.5, 0.5], np.float32),
        states=None,
        temperatures=np.ones(2, np.float32),
        neighbours=neighbours,
    )


def shares(neighbours, vector):
    found = table(neighbours).logits(text_features("a text", BUCKETS), vector)
    return np.exp(found) / np.exp(found).sum()


def test_the_label_of_the_nearest_texts_is_likeliest():
    assert two_labels().logits(np.array([3, 0.1], np.float32)).argmax() == 0
    assert two_labels().logits(np.array([0.1, 3], np.float32)).argmax() == 1


def test_a_label_with_twice_as_many_texts_in_one_place_is_no_likelier():
    there = normalize_rows(np.array([[1, 1], [1, 1], [1, 1]], np.float32))
    logits = dataclasses.replace(two_labels(), points=there).logits(np.array([1, 0], np.float32))
    assert logits[0] == pytest.approx(logits[1], abs=1e-5)


def test_a_vector_of_nothing_or_of_huge_values_gets_finite_logits():
    for vector in ([0, 0], [1e18, -1e18]):
        assert np.isfinite(two_labels().logits(np.array(vector, np.float32))).all()


def test_neighbours_move_labels_within_the_everyday_style_only():
    vector = np.array([0, 1], np.float32)
    without, moved = shares(None, vector), shares(two_labels(), vector)
    assert moved[1] > 3 * moved[0]
    assert moved[:2].sum() == pytest.approx(without[:2].sum(), rel=1e-5)
    assert moved[2:] == pytest.approx(without[2:], rel=1e-5)


def test_what_is_written_is_read_again_but_for_rounding():
    head = HeadFile.load_file(FILE, kind="domain")
    arrays = {**head.arrays, **two_labels().arrays("tiny")}
    written = dataclasses.replace(head, labels=("a", "b"), arrays=arrays)
    again = LabelDensity.from_head(written, "tiny")
    assert again is not None
    assert again.points == pytest.approx(POINTS, abs=0.01)
    assert again.counts.tolist() == [2, 1]


def test_a_head_without_known_texts_is_read_as_before():
    head = HeadFile.load_file(FILE, kind="domain")
    arrays = {name: array for name, array in head.arrays.items() if name != "latin_points"}
    DomainHead(dataclasses.replace(head, arrays=arrays))


@pytest.mark.parametrize("name", ["latin_offset", "latin_projection", "latin_points_per_label"])
def test_known_texts_that_do_not_fit_are_refused(name):
    head = HeadFile.load_file(FILE, kind="domain")
    arrays = {
        **head.arrays,
        name: head.arrays[name][:, :3] if name.endswith("tion") else head.arrays[name][:3],
    }
    with pytest.raises(EncoderError, match="latin_points do not fit"):
        DomainHead(dataclasses.replace(head, arrays=arrays))
