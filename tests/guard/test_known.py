"""What is remembered of texts: findings, bounded, and never the texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixway.guard.known import KnownTexts


def test_a_text_is_known_by_who_says_it_and_the_one_used_longest_ago_goes_first():
    known = KnownTexts[int](3)
    known.keep("a", 1, "user")
    known.keep("a", 2, "tool")
    known.keep("b", 3)
    assert (known.get("a", "user"), known.get("a", "tool"), known.get("a")) == (1, 2, None)
    known.keep("c", 4)
    assert (known.get("b"), known.get("a", "user"), known.get("c")) == (None, 1, 4)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 6))))
def test_it_never_holds_more_findings_than_it_may(kept):
    known = KnownTexts[int](10)
    for text, findings in kept:
        known.keep(text, findings, findings=findings)
        known.check()
        assert known.get(text) == findings
