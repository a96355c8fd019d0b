"""The room put together for a gateway: the middleware, and what reloads and judges it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from radixway.config.semantic import SemanticSection
from radixway.pipeline import ModelStates
from radixway.semantic.holder import Snapshots, watch
from radixway.semantic.middleware import Semantic
from radixway.semantic.reading import Reader
from radixway.semantic.scores import Feedback
from radixway.semantic.signals.guard import GuardHook
from radixway.semantic.snapshot import Encode

if TYPE_CHECKING:
    from radixway.encoders import EncoderService
    from radixway.semantic.signals.domain import DomainHead


def build_room(section: SemanticSection, states: ModelStates, encoders: EncoderService) -> SemanticRoom:
    """The room of a gateway."""
    return SemanticRoom(section, states, encode=encoders.encode)


class SemanticRoom:
    """What a gateway has of this room. Nothing answers before `running()`."""

    def __init__(
        self,
        section: SemanticSection,
        states: ModelStates,
        encode: Encode | None = None,
        head: DomainHead | None = None,
        guard: GuardHook | None = None,
    ) -> None:
        """`encode` and `head` None: the signals that need them say nothing."""
        self.snapshots = Snapshots(section, encode, head)
        self.feedback = Feedback(section.feedback)
        self.middleware = Semantic(
            lambda: self.snapshots.current, Reader(encode, guard), states, self.feedback
        )
        self._watch = section.watch

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Compile the configuration, and watch its file. Raises ConfigError."""
        watching = asyncio.create_task(watch(self.snapshots)) if self._watch else None
        try:
            await self.snapshots.start()
            yield
        finally:
            if watching is not None:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
