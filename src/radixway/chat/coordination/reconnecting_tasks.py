"""Connections that come back by themselves when their server does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_PAUSES_S = (0.05, 1.0)
"""Before a server that is away is tried again: the first, and the longest they double up to."""


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
            log.info("chats: %s is back", self.name)

    async def run_reconnecting(
        self,
        what: str,
        work: Callable[[], Awaitable[None]],
        errors: tuple[type[Exception], ...],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Repeat `work`, named `what`, until cancelled. `failed`: called each time it ends with one of
        `errors`.
        """
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
