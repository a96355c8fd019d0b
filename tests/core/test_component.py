"""Components start in order and stop in reverse, whatever fails; erasing reaches all that keep something."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from radixway.core.component import CannotErase, Component, Subject, running
from radixway.core.erasure import ErasureService, PendingErasureStore


class Recorded(Component):
    """Notes what is asked of it in `calls`; raises what it is told to."""

    def __init__(
        self,
        name: str,
        calls: list[str],
        *,
        start_error: Exception | None = None,
        stop_error: Exception | None = None,
    ) -> None:
        self.name = name
        self._calls = calls
        self._start_error = start_error
        self._stop_error = stop_error

    async def start(self) -> None:
        self._calls.append(f"start {self.name}")
        if self._start_error is not None:
            raise self._start_error

    async def stop(self) -> None:
        self._calls.append(f"stop {self.name}")
        if self._stop_error is not None:
            raise self._stop_error


class Keeping(Component):
    """Keeps `entries` of everybody."""

    def __init__(self, name: str, entries: int, order: list[str], *, by: frozenset[str]) -> None:
        self.name = name
        self.erasable_by = by
        self._entries = entries
        self._order = order

    async def erase(self, subject: Subject) -> int:
        self._order.append(self.name)
        if self._entries < 0:
            raise CannotErase("it is away")
        return self._entries


async def test_they_start_in_order_and_stop_in_reverse() -> None:
    calls: list[str] = []
    async with running([Recorded("a", calls), Component(), Recorded("b", calls)]):
        calls.append("serve")
    assert calls == ["start a", "start b", "serve", "stop b", "stop a"]


async def test_one_that_cannot_start_has_those_before_it_stopped_alone() -> None:
    calls: list[str] = []
    broken = Recorded("b", calls, start_error=ValueError("b is broken"))
    with pytest.raises(ValueError, match="b is broken"):
        async with running([Recorded("a", calls), broken, Recorded("c", calls)]):
            raise AssertionError("it does not run")
    assert calls == ["start a", "start b", "stop a"]


async def test_all_are_stopped_even_if_some_fail_and_the_first_error_is_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[str] = []
    first, second = OSError("the first"), OSError("the second")
    parts = [
        Recorded("a", calls),
        Recorded("b", calls, stop_error=second),
        Recorded("c", calls, stop_error=first),
    ]
    with caplog.at_level(logging.ERROR), pytest.raises(OSError, match="the first"):
        async with running(parts):
            pass
    assert calls[-3:] == ["stop c", "stop b", "stop a"]
    assert [record.message for record in caplog.records] == ["b could not be stopped"]


async def test_what_failed_while_they_ran_is_not_hidden_by_what_fails_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[str] = []
    with pytest.raises(ValueError, match="serving failed"):
        async with running([Recorded("a", calls), Recorded("b", calls, stop_error=OSError("stop failed"))]):
            raise ValueError("serving failed")
    assert calls[-2:] == ["stop b", "stop a"]
    assert [record.message for record in caplog.records] == ["b could not be stopped"]


async def test_whoever_is_cancelled_while_they_start_has_them_stopped() -> None:
    calls: list[str] = []
    began = asyncio.Event()

    class Endless(Component):
        async def start(self) -> None:
            began.set()
            await asyncio.Event().wait()

    async def run() -> None:
        async with running([Recorded("a", calls), Endless()]):
            raise AssertionError("it does not run")

    task = asyncio.create_task(run())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls == ["start a", "stop a"]


async def test_erasing_asks_those_that_keep_something_the_last_started_first(tmp_path: Path) -> None:
    order: list[str] = []
    everything = frozenset({"tenant", "user", "session", "request"})
    parts = [
        Keeping("journals", 1, order, by=everything),
        Recorded("metrics", order),
        Keeping("anonymous", 7, order, by=frozenset({"tenant"})),
        Keeping("away", -1, order, by=everything),
        Keeping("chats", 2, order, by=everything),
    ]
    workers = Keeping("workers", 3, order, by=everything)
    erasure = ErasureService(parts, PendingErasureStore(tmp_path), workers=workers)
    erased = await erasure.erase_everywhere(Subject("acme", "alice"))
    assert order == ["chats", "away", "journals"]
    told = {name: (room.status, room.entries) for name, room in erased.targets.items()}
    assert told == {
        "chats": ("erased", 2),
        "away": ("pending", 0),
        "anonymous": ("cannot_tell", 0),
        "journals": ("erased", 1),
    }
    order.clear()
    erased = await erasure.erase_everywhere(Subject("acme", "alice", workers=True))
    assert order[-1] == "workers" and erased.targets["workers"].entries == 3
