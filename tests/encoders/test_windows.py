"""Windows: each piece in one, none far from its neighbours."""

from pathlib import Path

import numpy as np
import pytest

from radixway.encoders.encoding import EncoderError
from radixway.encoders.files import MINILM, find_model
from radixway.encoders.windows import OVERLAP, Pieces, WordPieces


@pytest.fixture(scope="module")
def word_pieces():
    return WordPieces(find_model(MINILM), 256)


@pytest.mark.parametrize("count", [0, 1, 253, 254, 255, 256, 475, 476, 477, 1000, 5000])
def test_windows_own_every_piece_once_and_in_order(word_pieces, count):
    pieces = Pieces(np.arange(1000, 1000 + count, dtype=np.int32), np.zeros((count, 2), np.int32))
    windows = list(word_pieces.windows(pieces))
    owned = [window.ids[window.at : window.at + window.end - window.begin] for window in windows]
    np.testing.assert_array_equal(np.concatenate(owned), pieces.ids)
    assert all(len(window.ids) <= 256 for window in windows)
    for window in windows:
        assert window.begin == 0 or window.at > OVERLAP // 2
        assert window.end == count or window.at + window.end - window.begin <= 255 - OVERLAP // 2


def test_every_window_begins_and_ends_with_the_special_tokens(word_pieces):
    for window in word_pieces.windows(word_pieces.split("apples and pears " * 300)):
        assert (window.ids[0], window.ids[-1]) == (101, 102)


def test_windows_shorter_than_their_overlap_are_refused():
    with pytest.raises(EncoderError, match="too short"):
        WordPieces(find_model(MINILM), 64)


def test_a_directory_without_tokenizer_is_refused_by_its_name(tmp_path: Path):
    with pytest.raises(EncoderError, match=r"tokenizer\.json"):
        WordPieces(tmp_path, 256)
