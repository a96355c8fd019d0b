"""The flush timer: calls that are requested until it fires are made once, all at one time."""

from __future__ import annotations

import asyncio

from radixway.chat.answer_attempt import FlushTimer


async def test_calls_are_made_once_and_all_in_one_turn_of_the_loop() -> None:
    beat, done = FlushTimer(0.0), asyncio.Event()
    made: list[str] = []

    def first() -> None:
        made.append("first")
        asyncio.get_running_loop().call_soon(made.append, "the next turn")

    def second() -> None:
        made.append("second")
        done.set()

    for call in (first, second, first):
        beat.call_at_next(call)
    assert not made
    await done.wait()
    assert made[:3] == ["first", "second", "the next turn"]


async def test_who_asks_during_a_beat_is_called_at_the_next_one() -> None:
    beat, done = FlushTimer(0.0), asyncio.Event()
    made: list[int] = []

    def again() -> None:
        made.append(len(made))
        if len(made) < 3:
            beat.call_at_next(again)
        else:
            done.set()

    beat.call_at_next(again)
    await done.wait()
    assert made == [0, 1, 2]
