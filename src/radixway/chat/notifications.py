"""Notifications that wake tasks when there is work, so that nothing polls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

ALL_TOPICS = "*"
"""The topic for listeners that may have missed some: anything may have changed."""


class TopicNotifier:
    """Carries the news that something changed, within one process. `SharedNotifier` extends it to several."""

    def __init__(self) -> None:
        self._on_topic: Callable[[str], None] | None = None

    async def notify_topic(self, topic: str) -> None:
        """Announce that something changed for `topic`: a queue's name, or `clock` for changed times."""
        if self._on_topic is not None:
            self._on_topic(topic)

    @asynccontextmanager
    async def running(self, on_topic: Callable[[str], None]) -> AsyncIterator[None]:
        """Call `on_topic` for every topic that any process announces meanwhile, this one included.

        `ALL_TOPICS` is announced after a time in which topics of other processes may have been missed.
        """
        self._on_topic = on_topic
        try:
            yield
        finally:
            self._on_topic = None


class TopicEvents:
    """An event per topic. Belongs to one event loop."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def set_topic(self, topic: str) -> None:
        """Wake all tasks that wait for `topic`."""
        event = self._events.pop(topic, None)
        if event is not None:
            event.set()

    def set_all(self) -> None:
        """Wake all tasks, whatever topic they wait for."""
        for topic in tuple(self._events):
            self.set_topic(topic)

    def topic_event(self, topic: str) -> asyncio.Event:
        """Return the event that the next `set_topic(topic)` sets. Take it before looking for work, and wait
        for it after finding none.
        """
        return self._events.setdefault(topic, asyncio.Event())


async def wait_for_first(events: Iterable[asyncio.Event]) -> None:
    """Wait until any of `events` is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    """Wait for `event` for at most `seconds`. Returns whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
