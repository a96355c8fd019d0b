"""The semantic layer without a gateway: the same room, nothing is sent, and every model counts as ready."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from radixway.config import EncodersSection
from radixway.config.semantic import SemanticSection, on_this_machine, whole_semantic
from radixway.pipeline import AttackJudge, ModelState, PersonalDataFinder
from radixway.semantic.build import SemanticRoom, build_room
from radixway.semantic.signals.guard import OfOneText

if TYPE_CHECKING:
    from radixway.encoders import EncoderService


@dataclass(frozen=True, slots=True)
class Offline:
    """What there is to ask."""

    encoders: EncoderService
    room: SemanticRoom


Guards = Callable[["EncoderService"], tuple[PersonalDataFinder, AttackJudge]]


@asynccontextmanager
async def offline(
    section: SemanticSection, encoders: EncodersSection, guards: Guards | None = None
) -> AsyncIterator[Offline]:
    """Load the encoder and compile the section. `guards`: who answers rules that ask what a guard found.

    Raises:
        ConfigError: the section cannot be used.
        ImportError: packages of radixway[semantic] are missing.
    """
    from radixway.encoders import start_service

    category = whole_semantic(section).classifier.category_model
    service = start_service(encoders, *on_this_machine(category.model_id, category.category_mapping_path))
    try:
        guard = None if guards is None else OfOneText(*guards(service))
        room = build_room(section, every_model_is_ready, service, cache=None, guard=guard)
        await room.snapshots.start()
        yield Offline(service, room)
    finally:
        await service.aclose()


class _Ready:
    workers = 1

    def expected_ttft_s(self, prompt_tokens: int) -> float:
        return 0.0


_READY = _Ready()


def every_model_is_ready(model: str) -> ModelState | None:
    """A `pipeline.ModelStates` without workers: scores and prices alone decide."""
    return _READY
