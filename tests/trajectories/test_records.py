"""Labels of stretches of tokens, cut and joined."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.trajectories import TokenLabel
from radixway.trajectories.token_records import (
    cut_spans,
    join_spans,
    sampled_spans,
    span_lengths,
    spans_from_labels,
)
from radixway.trajectories.token_segment import TokenSegment

labels = st.lists(
    st.sampled_from([TokenLabel("prompt", 0), TokenLabel("sampled", 1, 1), TokenLabel("sampled", 1, 2)])
)


def each(spans):
    return [label for length, label in span_lengths(spans) for _ in range(length)]


@given(labels, st.data())
def test_a_cut_has_the_labels_of_its_tokens_and_parts_joined_are_the_whole(given_, data):
    spans = spans_from_labels(given_)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(given_))] * 2)))
    part = cut_spans(spans, start, end)
    assert each(part) == given_[start:end] and all(length for length, _ in span_lengths(part))
    assert (
        join_spans(join_spans(cut_spans(spans, 0, start), part), cut_spans(spans, end, len(given_))) == spans
    )


@given(labels.filter(bool), st.data())
def test_hidden_tokens_keep_everything_else_of_their_labels(given_, data):
    hidden = sorted(data.draw(st.sets(st.integers(0, len(given_) - 1))))
    count = len(given_)
    told = TokenSegment.from_labels([1] * count, b"x", None, spans_from_labels(given_)).label_spans(hidden)
    assert told == spans_from_labels(
        label._replace(hidden=place in hidden) for place, label in enumerate(given_)
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["a", "b"])), max_size=4))
def test_sampled_tokens_are_of_the_version_whose_span_they_are_in(drawn):
    spans, at = [], 0
    for gap, length, version in drawn:
        spans.append((at + gap, at + gap + length, version))
        at += gap + length
    count = at + 2
    versions = ["a"] * count
    for start, end, version in spans:
        versions[start:end] = [version] * (end - start)
    made = sampled_spans(count, "a", spans=spans)
    assert made == spans_from_labels(TokenLabel("sampled", 1, version) for version in versions)


@pytest.mark.parametrize("spans", [[(0, 4, 1)], [(2, 1, 1)], [(-1, 1, 1)], [(0, 2, 1), (1, 3, 2)]])
def test_spans_of_versions_that_do_not_fit_are_refused(spans):
    with pytest.raises(ValueError, match="weight versions"):
        sampled_spans(3, "a", spans=spans)


def test_no_tokens_have_no_labels():
    assert sampled_spans(0, 1) == ()
