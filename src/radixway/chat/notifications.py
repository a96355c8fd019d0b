"""Notifications that wake tasks when there is work, so that nothing polls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

ALL_TOPICS = "*"
"""The topic for who may have missed some: all may have changed."""


class TopicNotifier:
    """Carries the news that something changed, within one process. `SharedNotifier` extends it to several."""

    def __init__(self) -> None:
        self._told: Callable[[str], None] | None = None

    async def notify_topic(self, topic: str) -> None:
        """Announce that something changed for `topic`: a queue's name, or `clock` for changed times."""
        if self._told is not None:
            self._told(topic)

    @asynccontextmanager
    async def running(self, told: Callable[[str], None]) -> AsyncIterator[None]:
        """Call `told` for every topic that any process announces while this holds, this one included.

        `ALL_TOPICS` is announced after a time in which topics of other processes may have been missed.
        """
        self._told = told
        try:
            yield
        finally:
            self._told = None


class TopicEvents:
    """One event for each topic. Belongs to one event loop."""

    def __init__(self) -> None:
        self._bells: dict[str, asyncio.Event] = {}

    def set_topic(self, topic: str) -> None:
        """Wake all tasks that wait for `topic`."""
        bell = self._bells.pop(topic, None)
        if bell is not None:
            bell.set()

    def set_all(self) -> None:
        """Wake all tasks, whatever topic they wait for."""
        for topic in tuple(self._bells):
            self.set_topic(topic)

    def topic_event(self, topic: str) -> asyncio.Event:
        """Return the event that the next `set_topic(topic)` sets. Take it before looking for work, and wait
        for it after finding none.
        """
        return self._bells.setdefault(topic, asyncio.Event())


async def wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    """Wait for `event` for at most `seconds`. Returns whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
