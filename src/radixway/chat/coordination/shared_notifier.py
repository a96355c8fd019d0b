"""A `TopicNotifier` for several processes: topics are announced here at once, and carried to the others."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from radixway.chat.notifications import ALL_TOPICS, TopicNotifier
from radixway.core.net.task_cancellation import cancel_tasks

log = logging.getLogger(__name__)

_PAUSES_S = (0.05, 1.0)
"""First and longest pause before an unavailable server is tried again; it doubles."""


class ReconnectingTasks:
    """Work over connections, repeated while its server comes and goes."""

    def __init__(self, name: str) -> None:
        """`name`: of the server, in words."""
        self.name = name
        self.failures = 0
        """How often a connection broke, or could not be made."""
        self._problems: dict[str, str] = {}

    @property
    def problem(self) -> str | None:
        """The current problem, in words without addresses; None: there is none."""
        return next(iter(self._problems.values()), None)

    def mark_working(self, what: str) -> None:
        """Clear the problem of the work named `what`, which has reached its server."""
        if self._problems.pop(what, None) is not None and not self._problems:
            log.info("chats: %s is available again", self.name)

    async def run_reconnecting(
        self,
        what: str,
        work: Callable[[], Awaitable[None]],
        errors: tuple[type[Exception], ...],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Repeat `work`, named `what`, until cancelled. `failed`: called after each of `errors`."""
        pause_s = _PAUSES_S[0]
        while True:
            try:
                await work()
            except errors as error:
                if what not in self._problems:
                    pause_s = _PAUSES_S[0]
                    if not self._problems:
                        log.warning("chats: %s does not answer: %s", self.name, type(error).__name__)
                self.failures += 1
                self._problems[what] = f"{what}: {type(error).__name__}"
                failed()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSES_S[1])


_FLUSH_S = 0.5
"""Time for pending notifications when the process ends."""


class TopicTransport(Protocol):
    """Carries topics to other processes."""

    errors: tuple[type[Exception], ...]
    """Raised by `publish_topics` and `receive_topics` when the connection breaks."""

    async def publish_topics(self, topics: Collection[str]) -> None:
        """Send `topics` to every other process that listens."""
        ...

    async def receive_topics(self, on_topic: Callable[[str], None], ready: Callable[[], None]) -> None:
        """Call `ready` once connected, then `on_topic` for each topic, until the connection breaks."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class SharedNotifier(TopicNotifier):
    """Carries topics to other processes by a `TopicTransport`; those of one moment travel together."""

    def __init__(self, transport: TopicTransport, reconnecting: ReconnectingTasks) -> None:
        super().__init__()
        self._transport = transport
        self._reconnecting = reconnecting
        self._unsent: dict[str, None] = {}
        self._has_unsent = asyncio.Event()

    async def notify_topic(self, topic: str) -> None:
        """Announce `topic` here at once, and to the other processes without waiting for them."""
        await super().notify_topic(topic)
        self._unsent[topic] = None
        self._has_unsent.set()

    @asynccontextmanager
    async def running(self, on_topic: Callable[[str], None]) -> AsyncIterator[None]:
        """Call `on_topic` for every topic, and with `ALL_TOPICS` after each reconnection or failure."""
        self._on_topic = on_topic

        async def receive() -> None:
            await self._transport.receive_topics(on_topic, ready)

        def ready() -> None:
            self._reconnecting.mark_working("hearing")
            missed()

        def missed() -> None:
            on_topic(ALL_TOPICS)

        errors = self._transport.errors
        tasks = [
            asyncio.create_task(self._reconnecting.run_reconnecting("hearing", receive, errors, missed)),
            asyncio.create_task(self._reconnecting.run_reconnecting("telling", self._publish_loop, errors)),
        ]
        try:
            yield
        finally:
            self._on_topic = None
            with suppress(TimeoutError, *errors):
                async with asyncio.timeout(_FLUSH_S):
                    await self._publish_pending()
            await cancel_tasks(tasks)
            await self._transport.aclose()

    async def _publish_loop(self) -> None:
        while True:
            await self._has_unsent.wait()
            self._has_unsent.clear()
            await self._publish_pending()
            self._reconnecting.mark_working("telling")

    async def _publish_pending(self) -> None:
        topics, self._unsent = self._unsent, {}
        if not topics:
            return
        try:
            await self._transport.publish_topics(topics)
        except BaseException:
            self._unsent = topics | self._unsent
            self._has_unsent.set()
            raise
