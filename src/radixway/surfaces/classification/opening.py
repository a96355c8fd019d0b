"""The classification room, opened with the first question: with the gateway's encoder, or one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from radixway.component import Component
from radixway.config import Config, ConfigError
from radixway.pipeline import AttackJudge, ModelStates, PersonalDataFinder
from radixway.surfaces.classification.errors import ApiError

if TYPE_CHECKING:
    from radixway.encoders import EncoderService
    from radixway.semantic.build import SemanticRoom
    from radixway.semantic.classification import Tasks


class LazyRoom(Component):
    """Belongs to one event loop. What could not be opened is tried again with the next question."""

    name = "classification"

    def __init__(
        self,
        config: Config,
        states: ModelStates,
        encoders: EncoderService | None,
        semantic: SemanticRoom | None,
        guards: Callable[[EncoderService], tuple[PersonalDataFinder, AttackJudge]] | None = None,
    ) -> None:
        """`encoders` and `semantic`: the gateway's, where it has them. `guards`: opens a guard's."""
        self._config = config
        self._states = states
        self._encoders = encoders
        self._own: EncoderService | None = None
        self._semantic = semantic
        self._guards = guards
        self._tasks: Tasks | None = None
        self._lock = asyncio.Lock()

    async def tasks(self) -> Tasks:
        """Who answers. Raises ApiError (503) where packages are missing."""
        async with self._lock:
            if self._tasks is None:
                self._tasks = await self._open()
            return self._tasks

    async def stop(self) -> None:
        """Let go of the encoder that was started here."""
        if self._own is not None:
            await self._own.aclose()

    async def _open(self) -> Tasks:
        try:
            await asyncio.to_thread(_import)  # half a second of a core's time
        except ImportError as error:
            why = f"this needs radixway[semantic]: {error}"
            raise ApiError(why, status=503, code="ENCODER_UNAVAILABLE", missing=["encoder"]) from None
        from radixway.config.semantic import SemanticSection
        from radixway.encoders import start_service
        from radixway.semantic.build import build_room
        from radixway.semantic.classification import ClassificationRoom, Tasks

        encoders = self._encoders or self._own
        if encoders is None:
            encoders = self._own = start_service(self._config.encoders)
        semantic = self._semantic
        if semantic is None:
            semantic = build_room(SemanticSection(), self._states, encoders, cache=None)
            try:
                await semantic.snapshots.start()
            except ConfigError as error:
                raise ApiError(str(error), status=503, code="ENCODER_UNAVAILABLE") from None
        guards = (None, None) if self._guards is None else self._guards(encoders)
        return Tasks(ClassificationRoom(encoders, semantic, self._states, *guards))


def _import() -> None:
    import radixway.encoders
    import radixway.semantic.classification  # noqa: F401
