"""Both guards asked about texts, without a gateway around them."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.guard.guard_metrics import GuardMetrics
from radixway.semantics.guard.passages import TextPassage
from radixway.semantics.guard.text_scanner import FindingsCache, TextScanner
from support.guarded import WordFinder, WordJudge


@pytest.mark.parametrize("ask", [TextScanner.find_personal_data, TextScanner.find_attacks])
async def test_a_request_of_very_many_texts_lets_others_go_on(ask):
    scan = TextScanner(WordFinder(), WordJudge(), GuardMetrics(MetricsRegistry()), wait_s=60)
    passages = [TextPassage(f"text {at % 7}", "user", ("documents", at)) for at in range(5000)]
    others = 0

    async def go_on():
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(go_on())
    await ask(scan, passages)
    other.cancel()
    assert others >= 10


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
