"""What goes on beside all else goes on, and ends with what it belongs to."""

from __future__ import annotations

import asyncio
import logging

import pytest

from radixway.chat.background_tasks import run_concurrently


async def test_work_that_breaks_is_told_of_and_begun_anew(caplog: pytest.LogCaptureFixture) -> None:
    begun: list[str] = []
    goes_on = asyncio.Event()

    async def work() -> None:
        begun.append("again" if begun else "first")
        if len(begun) == 1:
            raise KeyError("a defect")
        goes_on.set()
        await asyncio.Event().wait()

    with caplog.at_level(logging.ERROR):
        async with asyncio.timeout(10), run_concurrently(work, again_s=0.0):
            await goes_on.wait()
    assert begun == ["first", "again"]
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_the_block_ends_when_its_work_has(caplog: pytest.LogCaptureFixture) -> None:
    ends: list[str] = []
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ends.append("work")

    with pytest.raises(LookupError):
        async with run_concurrently(work):
            await began.wait()
            raise LookupError
    ends.append("block")
    assert ends == ["work", "block"] and not caplog.records
