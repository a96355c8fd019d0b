"""Texts as vectors, and how near they are to each other."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from radixway.semantics.classification.service import ClassificationService
from radixway.semantics.classification.tasks import Answer, elapsed_ms, map_concurrently

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoder


class TextSimilarity:
    """The published questions about likeness. Vectors have unit length: their product is the cosine."""

    def __init__(self, room: ClassificationService, at_once: int) -> None:
        """`at_once`: texts that may wait for the encoder at a time."""
        self._room = room
        self._at_once = at_once

    @property
    def encoder(self) -> TextEncoder | None:
        """What makes the vectors; None until it is loaded."""
        return self._room.encoders.encoder

    async def ready_encoder(self) -> TextEncoder:
        """The same, once it is loaded. Raises Unavailable."""
        await self._room.encode_text("a")
        encoder = self.encoder
        assert encoder is not None
        return encoder

    async def embed_texts(self, texts: Sequence[str]) -> Answer:
        """A vector for each text."""
        began = perf_counter()

        async def one(text: str) -> Answer:
            started = perf_counter()
            encoding = await self._room.encode_text(text)
            return {
                "text": text,
                "embedding": encoding.vector.tolist(),
                "dimension": len(encoding.vector),
                "model_used": self._model_name(),
                "processing_time_ms": elapsed_ms(started),
            }

        with self._room.read_once():
            made = await map_concurrently(texts, one, self._at_once)
        total = elapsed_ms(began)
        return {
            "embeddings": made,
            "total_count": len(made),
            "total_processing_time_ms": total,
            "avg_processing_time_ms": total / len(made),
        }

    async def compare_texts(self, one: str, other: str) -> Answer:
        """The cosine of two texts."""
        began = perf_counter()
        (near,) = await self._cosines(one, [other])
        return {
            "model_used": self._model_name(),
            "similarity": near,
            "processing_time_ms": elapsed_ms(began),
        }

    async def rank_candidates(self, query: str, candidates: Sequence[str], top_k: int) -> Answer:
        """The candidates nearest to the query, nearest first; 0: all of them."""
        began = perf_counter()
        near = await self._cosines(query, candidates)
        order = sorted(range(len(near)), key=lambda index: -near[index])[: top_k or None]
        return {
            "matches": [
                {"index": index, "similarity": near[index], "text": candidates[index]} for index in order
            ],
            "total_candidates": len(candidates),
            "model_used": self._model_name(),
            "processing_time_ms": elapsed_ms(began),
        }

    async def _cosines(self, query: str, candidates: Sequence[str]) -> list[float]:
        with self._room.read_once():
            first, *others = await map_concurrently(
                [query, *candidates], self._room.encode_text, self._at_once
            )
        return [float(first.vector @ other.vector) for other in others]

    def _model_name(self) -> str:
        encoder = self.encoder
        return "" if encoder is None else encoder.id
