"""What is remembered of texts: findings, bounded, and never the texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixway.semantics.guard.findings_cache import FindingsCache


def test_a_text_is_known_by_who_says_it_and_the_one_used_longest_ago_goes_first():
    known = FindingsCache[int](3)
    known.store_findings("a", 1, "user")
    known.store_findings("a", 2, "tool")
    known.store_findings("b", 3)
    assert (known.find_known("a", "user"), known.find_known("a", "tool"), known.find_known("a")) == (
        1,
        2,
        None,
    )
    known.store_findings("c", 4)
    assert (known.find_known("b"), known.find_known("a", "user"), known.find_known("c")) == (None, 1, 4)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 6))))
def test_it_never_holds_more_findings_than_it_may(kept):
    known = FindingsCache[int](10)
    for text, findings in kept:
        known.store_findings(text, findings, findings=findings)
        known.check()
        assert known.find_known(text) == findings
