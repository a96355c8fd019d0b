"""`/api/v1/embeddings` and `/api/v1/similarity`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from msgspec import Meta

from radixway.surfaces.classification.bodies import body_of, check_text, check_texts
from radixway.surfaces.classification.errors import ApiError, in_this_shape
from radixway.surfaces.classification.leaving import while_connected
from radixway.surfaces.classification.opening import LazyRoom

if TYPE_CHECKING:
    from radixway.semantic.classification import Vectors

Answer = dict[str, Any]


class _Model(msgspec.Struct):
    model: str = "auto"
    dimension: int | None = None


class _Texts(_Model):
    texts: list[str] | None = None


class _Pair(_Model):
    text1: str | None = None
    text2: str | None = None


class _Query(_Model):
    query: str | None = None
    candidates: list[str] | None = None
    top_k: Annotated[int, Meta(ge=0)] = 0


_texts = msgspec.json.Decoder(_Texts)
_pair = msgspec.json.Decoder(_Pair)
_query = msgspec.json.Decoder(_Query)


def vector_routes(room: LazyRoom) -> APIRouter:
    """Vectors of texts, the cosine of two, the nearest of many; and which model makes them."""
    router = APIRouter(tags=["classification"])

    @router.post("/api/v1/embeddings")
    async def embeddings(request: Request) -> Answer:
        """A vector for each of `texts`, of unit length."""
        with in_this_shape():
            asked = await body_of(request, _texts)
            if not asked.texts:
                check_texts(asked.texts, 0)
            vectors, most = await open_vectors()
            texts = check_texts(asked.texts, most)
            await check_model(vectors, asked)
            return await while_connected(request, vectors.embeddings(texts))

    @router.post("/api/v1/similarity")
    async def similarity(request: Request) -> Answer:
        """The cosine of `text1` and `text2`."""
        with in_this_shape():
            asked = await body_of(request, _pair)
            one, other = check_text(asked.text1, "text1"), check_text(asked.text2, "text2")
            vectors, _ = await open_vectors()
            await check_model(vectors, asked)
            return await while_connected(request, vectors.similarity(one, other))

    @router.post("/api/v1/similarity/batch")
    async def nearest(request: Request) -> Answer:
        """The `top_k` of `candidates` nearest to `query`; 0: all, in that order."""
        with in_this_shape():
            asked = await body_of(request, _query)
            query = check_text(asked.query, "query")
            if not asked.candidates:
                check_texts(asked.candidates, 0, "candidates")
            vectors, most = await open_vectors()
            candidates = check_texts(asked.candidates, most, "candidates")
            await check_model(vectors, asked)
            return await while_connected(request, vectors.nearest(query, candidates, asked.top_k))

    @router.get("/api/v1/embeddings/models")
    async def models() -> Answer:
        """The model that makes vectors."""
        with in_this_shape():
            vectors, _ = await open_vectors()
            encoder = await vectors.ready()
            told = {"name": encoder.id, "dimension": encoder.size, "loaded": True}
            return {"models": [told], "count": 1}

    async def open_vectors() -> tuple[Vectors, int]:
        tasks = await room.tasks()
        from radixway.semantic.classification import Vectors

        limits = tasks.room.snapshot.section.api.batch_classification
        return Vectors(tasks.room, limits.max_concurrency), limits.max_batch_size

    return router


async def check_model(vectors: Vectors, asked: _Model) -> None:
    """Raises ApiError where another model or length is asked for than there is."""
    encoder = await vectors.ready()
    if asked.model not in ("", "auto") and not encoder.id.startswith(asked.model.rpartition("/")[2]):
        raise ApiError(f"vectors are made by {encoder.id} here (or say auto)", param="model")
    if asked.dimension not in (None, 0, encoder.size):
        raise ApiError(f"vectors of {encoder.id} have {encoder.size} numbers", param="dimension")
