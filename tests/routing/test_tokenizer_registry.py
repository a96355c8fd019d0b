"""What is kept of tokens stays within its bounds."""

from hypothesis import given
from hypothesis import strategies as st

from radixway.routing.tokenizer_registry import TokenCache


def test_the_least_recently_used_goes_first():
    cache = TokenCache(1_000)
    for key in (b"a", b"b", b"c"):
        cache[key] = bytes(50)
    assert cache.get(b"a")
    cache[b"d"] = bytes(50)
    assert [cache.get(key) is None for key in (b"a", b"b", b"c", b"d")] == [False, True, False, False]
    cache.check()


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.integers(0, 900)), max_size=30))
def test_no_sequence_of_entries_breaks_the_account(entries):
    cache = TokenCache(1_500)
    for key, size in entries:
        cache[key] = bytes(size)
        cache.check()
        assert cache.get(key) == bytes(size)
