"""The classification service, opened with the first question, on the gateway's encoder or its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from radixway.api.classification.errors import ClassificationApiError
from radixway.core.component import Component
from radixway.core.config import Config, ConfigError
from radixway.core.pipeline import AttackJudge, ModelStates, PersonalDataFinder

if TYPE_CHECKING:
    from radixway.semantics.classification import ClassificationTasks
    from radixway.semantics.decisions.service import SemanticService
    from radixway.semantics.encoders import EncoderService


class LazyClassificationService(Component):
    """Belongs to one event loop. If opening fails, the next question tries again."""

    name = "classification"

    def __init__(
        self,
        config: Config,
        states: ModelStates,
        encoders: EncoderService | None,
        semantic: SemanticService | None,
        guards: Callable[[EncoderService], tuple[PersonalDataFinder, AttackJudge]] | None = None,
    ) -> None:
        """`encoders` and `semantic`: the gateway's, where it has them. `guards`: opens a guard's."""
        self._config = config
        self._states = states
        self._encoders = encoders
        self._own: EncoderService | None = None
        self._semantic = semantic
        self._guards = guards
        self._tasks: ClassificationTasks | None = None
        self._lock = asyncio.Lock()

    async def tasks(self) -> ClassificationTasks:
        """Return the opened service. Raises ClassificationApiError (503) where packages are missing."""
        async with self._lock:
            if self._tasks is None:
                self._tasks = await self._open_tasks()
            return self._tasks

    async def stop(self) -> None:
        """Close the encoder that was started here."""
        if self._own is not None:
            await self._own.aclose()

    async def _open_tasks(self) -> ClassificationTasks:
        try:
            await asyncio.to_thread(_import_dependencies)  # half a second of a core's time
        except ImportError as error:
            why = f"this needs radixway[semantic]: {error}"
            raise ClassificationApiError(
                why, status=503, code="ENCODER_UNAVAILABLE", missing=["encoder"]
            ) from None
        from radixway.core.config.semantic import SemanticConfig
        from radixway.semantics.classification import ClassificationService, ClassificationTasks
        from radixway.semantics.decisions.service import build_semantic_service
        from radixway.semantics.encoders import start_service

        encoders = self._encoders or self._own
        if encoders is None:
            encoders = self._own = start_service(self._config.encoders)
        semantic = self._semantic
        if semantic is None:
            semantic = build_semantic_service(SemanticConfig(), self._states, encoders, cache=None)
            try:
                await semantic.snapshots.load_initial()
            except ConfigError as error:
                raise ClassificationApiError(str(error), status=503, code="ENCODER_UNAVAILABLE") from None
        guards = (None, None) if self._guards is None else self._guards(encoders)
        return ClassificationTasks(ClassificationService(encoders, semantic, self._states, *guards))


def _import_dependencies() -> None:
    import radixway.semantics.classification
    import radixway.semantics.encoders  # noqa: F401
