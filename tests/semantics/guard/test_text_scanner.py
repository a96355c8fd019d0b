"""Both guards asked about texts, without a gateway around them."""

from __future__ import annotations

import asyncio

import pytest

from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.guard.guard_metrics import GuardMetrics
from radixway.semantics.guard.passages import TextPassage
from radixway.semantics.guard.text_scanner import TextScanner
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
