"""The semantic layer without a gateway: the same room, nothing is sent, and every model counts as ready."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from radixway.config import EncodersConfig
from radixway.config.semantic import SemanticConfig, local_model_paths, merge_semantic_file
from radixway.pipeline import AttackJudge, ModelState, PersonalDataFinder
from radixway.semantic.build import SemanticService, build_semantic_service
from radixway.semantic.signals.guard import SingleTextGuardHook

if TYPE_CHECKING:
    from radixway.encoders import EncoderService


@dataclass(frozen=True, slots=True)
class OfflineLayer:
    """What there is to ask."""

    encoders: EncoderService
    room: SemanticService


Guards = Callable[["EncoderService"], tuple[PersonalDataFinder, AttackJudge]]


@asynccontextmanager
async def open_offline(
    section: SemanticConfig, encoders: EncodersConfig, guards: Guards | None = None
) -> AsyncIterator[OfflineLayer]:
    """Load the encoder and compile the section. `guards`: who answers rules that ask what a guard found.

    Raises:
        ConfigError: the section cannot be used.
        ImportError: packages of radixway[semantic] are missing.
    """
    from radixway.encoders import start_service

    category = merge_semantic_file(section).classifier.category_model
    service = start_service(encoders, *local_model_paths(category.model_id, category.category_mapping_path))
    try:
        guard = None if guards is None else SingleTextGuardHook(*guards(service))
        room = build_semantic_service(section, every_model_is_ready, service, cache=None, guard=guard)
        await room.snapshots.load_initial()
        yield OfflineLayer(service, room)
    finally:
        await service.aclose()


class _AlwaysReady:
    workers = 1

    def expected_ttft_s(self, prompt_tokens: int) -> float:
        return 0.0


_READY = _AlwaysReady()


def every_model_is_ready(model: str) -> ModelState | None:
    """A `pipeline.ModelStates` without workers: scores and prices alone decide."""
    return _READY
