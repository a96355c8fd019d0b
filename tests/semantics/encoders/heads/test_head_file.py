"""A head's file: what is saved is what is loaded, and nothing else is used."""

import json
from dataclasses import replace

import numpy as np
import pytest

from radixway.semantics.encoders import EncoderError
from radixway.semantics.encoders.heads import HeadFile


@pytest.fixture
def head(minilm):
    return HeadFile(
        kind="domain",
        labels=("math", "law", "other"),
        encoder=minilm.id,
        weights=minilm.weights,
        data="three sentences of our own",
        arrays={"weight": np.arange(12, dtype=np.float32).reshape(4, 3), "bias": np.zeros(3, np.float16)},
        settings={"temperature": 1.5, "note": "数学"},
    )


def test_a_head_is_loaded_as_it_was_saved(head, tmp_path, minilm, int8):
    head.save_file(tmp_path / "head.npz")
    loaded = HeadFile.load_file(tmp_path / "head.npz", kind="domain")
    assert replace(loaded, arrays={}) == replace(head, arrays={})
    for name, array in head.arrays.items():
        np.testing.assert_array_equal(loaded.arrays[name], array)
        assert loaded.arrays[name].dtype == array.dtype
    loaded.check_encoder(minilm)
    loaded.check_encoder(int8)


def test_equal_heads_make_equal_files(head, tmp_path):
    head.save_file(tmp_path / "one.npz")
    replace(head, arrays=dict(reversed(head.arrays.items()))).save_file(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_a_head_of_other_weights_is_refused_in_words(head, minilm):
    with pytest.raises(EncoderError, match="domain head was trained with .* retrain it or use that model"):
        replace(head, weights="0" * 64).check_encoder(minilm)


def test_a_head_of_another_kind_is_refused(head, tmp_path):
    head.save_file(tmp_path / "head.npz")
    with pytest.raises(EncoderError, match="head for domain, not for jailbreak"):
        HeadFile.load_file(tmp_path / "head.npz", kind="jailbreak")


def test_a_damaged_head_is_refused(head, tmp_path):
    path = tmp_path / "head.npz"
    head.save_file(path)
    with np.load(path) as file:
        entries = {name: file[name] for name in file.files}
    np.savez(path, **{**entries, "weight": entries["weight"] + 1})
    with pytest.raises(EncoderError, match="damaged"):
        HeadFile.load_file(path, kind="domain")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_head_is_refused_by_its_name(tmp_path, content):
    path = tmp_path / "head.npz"
    path.write_bytes(content)
    with pytest.raises(EncoderError, match=r"head\.npz is no head"):
        HeadFile.load_file(path, kind="domain")


def test_a_format_of_the_future_is_refused(head, tmp_path):
    path = tmp_path / "head.npz"
    head.save_file(path)
    with np.load(path) as file:
        entries = {name: file[name] for name in file.files}
    about = json.loads(entries["about"].tobytes()) | {"format": 2}
    entries["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **entries)
    with pytest.raises(EncoderError, match="format 2"):
        HeadFile.load_file(path, kind="domain")
