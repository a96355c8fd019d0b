"""The published interface with what users bring: arrays of any library, odd versions, wrong types."""

import numpy as np
import pytest

from radixway.trajectories import StringRadixTrie


@pytest.fixture
def trie():
    trie = StringRadixTrie()
    yield trie
    trie.check()
    assert not trie.store._tree.locked_size, "nothing stays held"


def test_arrays_are_taken_as_the_numbers_they_hold(trie):
    ids, logp, mask = np.array([5, 6]), np.array([0, -0.5], dtype=np.float32), np.array([0, 1])
    assert trie.insert("a b", ids, logp, mask, np.int64(4), offsets=np.array([1, 3]))
    found = trie.find_longest_prefix("a b c")
    assert (found.token_ids, found.logp, found.loss_mask) == ([5, 6], [0.0, -0.5], [0, 1])
    assert found.generation_versions == [None, 4]
    assert type(found.generation_versions[1]) is int, "a number that JSON knows"


def test_versions_per_token_are_taken_as_numbers_too(trie):
    assert trie.insert("a b", [5, 6], None, [1, 1], versions=np.array([3, 4]))
    assert list(map(type, trie.find_longest_prefix("a b").generation_versions)) == [int, int]


@pytest.mark.parametrize("version", [2.5, (1, 2), [1], object()])
def test_what_is_no_version_is_refused_before_anything_is_held(trie, version):
    trie.insert("a b", [5, 6])
    with pytest.raises(ValueError, match="version"):
        trie.insert("a b", [5, 6], None, [0, 1], version)
    with pytest.raises(ValueError, match="version"):
        trie.insert("a b", [5, 6], None, [0, 1], versions=[None, version])
    with pytest.raises(ValueError, match="version"):
        trie.gc_by_weight_version(version)


def test_collecting_for_no_version_is_refused_and_takes_nothing(trie):
    trie.insert("a b", [5, 6], weight_version=1)
    with pytest.raises(ValueError, match="version"):
        trie.gc_by_weight_version(None)
    assert trie.cur_cache_size == 2


def test_a_session_that_cannot_be_a_key_leaves_nothing_held(trie):
    trie.insert("a b", [5, 6])
    with pytest.raises(TypeError, match="unhashable"):
        trie.insert("a b", [5, 6], session=["s"])


@pytest.mark.parametrize("text", [b"a b", 5, ["a b"]])
def test_a_text_of_another_type_is_named(trie, text):
    for call in (
        lambda: trie.insert(text, [5]),
        lambda: trie.find_longest_prefix(text),
        lambda: trie.retrieve(text),
        lambda: trie.remove(text),
    ):
        with pytest.raises(TypeError, match="a text is a str"):
            call()


@pytest.mark.parametrize("text", ["a b", "ä b"])
def test_offsets_that_are_no_whole_numbers_are_refused(trie, text):
    with pytest.raises(ValueError, match="offsets"):
        trie.insert(text, [5, 6], offsets=[1.0, 3.0])


def test_an_infinite_log_probability_is_not_exact(trie):
    trie.insert("a b", [5, 6], [0.0, float("-inf")], [0, 1], 1)
    assert not trie.retrieve("a b").exact
