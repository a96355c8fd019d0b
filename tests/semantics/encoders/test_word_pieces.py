"""Windows: each piece in one, none far from its neighbours."""

from pathlib import Path

import numpy as np
import pytest

from radixway.semantics.encoders.base import EncoderError
from radixway.semantics.encoders.model_files import MINILM, find_model
from radixway.semantics.encoders.word_pieces import OVERLAP, TextPieces, WordPieces


@pytest.fixture(scope="module")
def word_pieces():
    return WordPieces(find_model(MINILM), 256)


@pytest.mark.parametrize("count", [0, 1, 253, 254, 255, 256, 475, 476, 477, 1000, 5000])
def test_windows_own_every_piece_once_and_in_order(word_pieces, count):
    pieces = TextPieces(np.arange(1000, 1000 + count, dtype=np.int32), np.zeros((count, 2), np.int32))
    windows = list(word_pieces.windows(pieces))
    owned = [window.ids[window.at : window.at + window.end - window.begin] for window in windows]
    np.testing.assert_array_equal(np.concatenate(owned), pieces.ids)
    assert all(len(window.ids) <= 256 for window in windows)
    for window in windows:
        assert window.begin == 0 or window.at > OVERLAP // 2
        assert window.end == count or window.at + window.end - window.begin <= 255 - OVERLAP // 2


def test_every_window_begins_and_ends_with_the_special_tokens(word_pieces):
    for window in word_pieces.windows(word_pieces.split_text("apples and pears " * 300)):
        assert (window.ids[0], window.ids[-1]) == (101, 102)


def test_windows_shorter_than_their_overlap_are_refused():
    with pytest.raises(EncoderError, match="too short"):
        WordPieces(find_model(MINILM), 64)


def test_a_directory_without_tokenizer_is_refused_by_its_name(tmp_path: Path):
    with pytest.raises(EncoderError, match=r"tokenizer\.json"):
        WordPieces(tmp_path, 256)


@pytest.mark.parametrize(
    "text",
    ["", "one two " * 3000, "word\n\n" * 2000, " " * 10_000, "定理与证明。" * 1500, "x\ud800 y " * 2000],
)
def test_a_long_text_is_split_part_by_part_into_the_pieces_it_has_as_a_whole(word_pieces, text):
    pauses = sum(1 for _ in word_pieces.split_text_steps(text))
    assert pauses >= len(text) // 4096, "nobody else runs while a part is split"
    pieces, whole = word_pieces.split_text(text), word_pieces._tokenize(text)
    np.testing.assert_array_equal(pieces.ids, whole.ids)
    np.testing.assert_array_equal(pieces.offsets, np.array(whole.offsets).reshape(-1, 2))


def test_a_run_without_spaces_is_split_too(word_pieces):
    pieces = word_pieces.split_text("a" * 10_000)
    assert pieces.offsets[0][0] == 0 and pieces.offsets[-1][1] == 10_000
