"""`/api/v1/embeddings` and `/api/v1/similarity`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from msgspec import Meta

from radixway.api.classification.errors import (
    ClassificationApiError,
    check_text_given,
    check_texts_given,
    translate_errors,
)
from radixway.api.classification.lazy_service import LazyClassificationService
from radixway.api.client_requests import decode_body, run_while_connected
from radixway.core.http import LazyRouter

if TYPE_CHECKING:
    from radixway.semantics.classification import TextSimilarity

Answer = dict[str, Any]


class _ModelFields(msgspec.Struct):
    model: str = "auto"
    dimension: int | None = None


class _EmbeddingsBody(_ModelFields):
    texts: list[str] | None = None


class _SimilarityBody(_ModelFields):
    text1: str | None = None
    text2: str | None = None


class _SearchBody(_ModelFields):
    query: str | None = None
    candidates: list[str] | None = None
    top_k: Annotated[int, Meta(ge=0)] = 0


def embedding_routes(service: LazyClassificationService) -> APIRouter:
    """Build embeddings, similarities and nearest texts, answered by `service`."""
    router = LazyRouter(tags=["classification"])

    @router.post("/api/v1/embeddings")
    async def embeddings(request: Request) -> Answer:
        """A vector for each of `texts`, of unit length."""
        with translate_errors():
            body = await decode_body(request, _EmbeddingsBody)
            if not body.texts:
                check_texts_given(body.texts, 0)
            vectors, max_texts = await open_vectors()
            texts = check_texts_given(body.texts, max_texts)
            await check_embedding_model(vectors, body)
            return await run_while_connected(request, vectors.embed_texts(texts))

    @router.post("/api/v1/similarity")
    async def similarity(request: Request) -> Answer:
        """The cosine of `text1` and `text2`."""
        with translate_errors():
            body = await decode_body(request, _SimilarityBody)
            one, other = check_text_given(body.text1, "text1"), check_text_given(body.text2, "text2")
            vectors, _ = await open_vectors()
            await check_embedding_model(vectors, body)
            return await run_while_connected(request, vectors.compare_texts(one, other))

    @router.post("/api/v1/similarity/batch")
    async def nearest(request: Request) -> Answer:
        """The `top_k` of `candidates` nearest to `query`; 0: all, in that order."""
        with translate_errors():
            body = await decode_body(request, _SearchBody)
            query = check_text_given(body.query, "query")
            if not body.candidates:
                check_texts_given(body.candidates, 0, "candidates")
            vectors, max_texts = await open_vectors()
            candidates = check_texts_given(body.candidates, max_texts, "candidates")
            await check_embedding_model(vectors, body)
            return await run_while_connected(request, vectors.rank_candidates(query, candidates, body.top_k))

    @router.get("/api/v1/embeddings/models")
    async def models() -> Answer:
        """The model that makes vectors."""
        with translate_errors():
            vectors, _ = await open_vectors()
            encoder = await vectors.ready_encoder()
            model = {"name": encoder.id, "dimension": encoder.size, "loaded": True}
            return {"models": [model], "count": 1}

    async def open_vectors() -> tuple[TextSimilarity, int]:
        tasks = await service.tasks()
        from radixway.semantics.classification import TextSimilarity

        limits = tasks.room.snapshot.section.api.batch_classification
        return TextSimilarity(tasks.room, limits.max_concurrency), limits.max_batch_size

    return router


async def check_embedding_model(vectors: TextSimilarity, body: _ModelFields) -> None:
    """Raises ClassificationApiError where `body` names another model or length than `vectors` have."""
    encoder = await vectors.ready_encoder()
    if body.model not in ("", "auto") and not encoder.id.startswith(body.model.rpartition("/")[2]):
        raise ClassificationApiError(f"vectors are made by {encoder.id} here (or say auto)", param="model")
    if body.dimension not in (None, 0, encoder.size):
        raise ClassificationApiError(
            f"vectors of {encoder.id} have {encoder.size} numbers", param="dimension"
        )
