"""MiniLM: its vectors, its states, and texts of any length."""

import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LAW = "The court held that the statute of limitations bars the plaintiff's claim. " * 12
WAR = "Explain the causes of World War I."
LONG = " ".join(f"Item {number} is about apples, rivers and the price of copper." for number in range(40))


def test_vectors_are_those_of_transformers(minilm, peer):
    texts = [WAR, "证明 2 的平方根是无理数", "naïve café — 100 USD?", "x"]
    for text, encoding in zip(texts, minilm.encode(texts), strict=True):
        assert encoding.vector @ peer(text)[-1].mean(0) / np.linalg.norm(peer(text)[-1].mean(0)) > 0.99999


def test_states_of_every_layer_are_those_of_transformers(minilm, peer):
    (encoding,) = minilm.encode([WAR], layers=(2, 4, 6))
    for layer, states in encoding.states.items():
        np.testing.assert_allclose(states, peer(WAR)[layer][1:-1], atol=1e-4)


def test_offsets_say_where_in_the_text_a_piece_stands(minilm):
    text = "Ünïcode 费马 unbelievability"
    (encoding,) = minilm.encode([text])
    found = [text[begin:end] for begin, end in encoding.offsets]
    assert found[0] == "Ünïcode"[: len(found[0])]
    assert "费" in found and "马" in found
    assert "".join(found) == text.replace(" ", "")


def test_a_text_without_pieces_has_a_vector_and_no_states(minilm):
    (encoding,) = minilm.encode([""], layers=(6,))
    assert encoding.tokens == 0
    assert encoding.states[6].shape == (0, 384)
    assert np.linalg.norm(encoding.vector) == pytest.approx(1)


def test_text_that_is_not_valid_unicode_is_read_all_the_same(minilm):
    broken, told = minilm.encode(["left \ud800 right", "left \ufffd right"])
    np.testing.assert_array_equal(broken.vector, told.vector)
    np.testing.assert_array_equal(broken.offsets, told.offsets)


def test_the_end_of_a_long_text_is_read(minilm):
    with_end, without, law = minilm.encode([f"{LONG} {LAW}", LONG, LAW], layers=(6,))
    assert with_end.tokens == without.tokens + law.tokens > 2 * 256
    assert with_end.states[6].shape == (with_end.tokens, 384)
    assert with_end.vector @ law.vector > without.vector @ law.vector + 0.05


def test_a_long_text_is_read_in_steps(minilm):
    steps = minilm.encode_steps(LONG)
    assert sum(1 for _ in steps) == pytest.approx(minilm.encode([LONG])[0].tokens / 222, abs=1)


def test_a_layer_that_there_is_not_is_refused(minilm):
    with pytest.raises(ValueError, match=r"layers \[1, 2, 3, 4, 5, 6\], not \[7\]"):
        minilm.encode([WAR], layers=(7,))


@settings(max_examples=10, deadline=None)
@given(st.text(max_size=40), st.integers(1, 30))
def test_every_piece_has_one_state_and_its_place_in_the_text(minilm, text, times):
    long = text * times
    (encoding,) = minilm.encode([long], layers=(2,))
    assert encoding.states[2].shape == (encoding.tokens, 384)
    assert encoding.offsets.shape == (encoding.tokens, 2)
    assert np.all(encoding.offsets[:, 0] <= encoding.offsets[:, 1])
    assert np.all(np.diff(encoding.offsets[:, 0]) >= 0)
    assert encoding.tokens == 0 or encoding.offsets[-1, 1] <= len(long)


def test_the_summary_is_of_the_layers_at_each_third(minilm):
    text = "Why do leaves turn red in autumn?"
    read = minilm.encode([text], layers=(2, 4, 6))[0]
    early, middle, last = (read.states[layer] for layer in (2, 4, 6))
    expected = [early.mean(axis=0), middle.mean(axis=0), middle.max(axis=0), last.max(axis=0)]
    assert np.array_equal(read.summary, np.concatenate(expected))
    read = minilm.encode([LONG], layers=(2, 4, 6))[0]
    early, middle, last = (read.states[layer] for layer in (2, 4, 6))
    expected = [early.mean(axis=0), middle.mean(axis=0), middle.max(axis=0), last.max(axis=0)]
    np.testing.assert_allclose(read.summary, np.concatenate(expected), atol=1e-5)
    assert not minilm.encode([""])[0].summary.any()


def test_states_that_nobody_asked_for_are_let_go_window_by_window(minilm, monkeypatch):
    known = []
    run = minilm._backbone.run_window

    class States(np.ndarray):
        pass

    def watched(ids, layers):
        states = [each.view(States) for each in run(ids, layers)]
        known.extend(weakref.ref(each) for each in states)
        return states

    monkeypatch.setattr(minilm._backbone, "run_window", watched)
    alive = [sum(one() is not None for one in known) for _ in minilm.encode_steps(LONG * 4)]
    assert len(alive) > 5 and max(alive) <= 3, "a megabyte has two gigabytes of them"
