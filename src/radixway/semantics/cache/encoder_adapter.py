"""Vectors for the cache, from the encoder that everything shares, and the verifier that knows it."""

from __future__ import annotations

from radixway.semantics.cache.answer_cache import Embed, EmbeddingUnavailableError
from radixway.semantics.cache.store import Vector
from radixway.semantics.cache.verifier import VerifierVerdict, Verify, bundled_head, verify, verify_blind
from radixway.semantics.encoders import EncoderError, EncoderService


def embedder_for(service: EncoderService) -> Embed:
    """A text's vector by way of `service`; where that is busy or broken, only literal repeats are found."""

    async def embed(text: str) -> Vector:
        try:
            return (await service.encode(text)).vector
        except EncoderError as error:
            raise EmbeddingUnavailableError(str(error)) from None

    return embed


def verifier_for(service: EncoderService) -> Verify:
    """The verifier for cosines of `service`: where another model runs than its head was trained with, it
    judges by the words alone. Raises EncoderError where the head cannot be read."""
    trained_with = bundled_head().weights

    def judge(one: str, other: str, cosine: float) -> VerifierVerdict:
        known = service.encoder is None or service.encoder.weights == trained_with
        return verify(one, other, cosine) if known else verify_blind(one, other, cosine)

    return judge
