"""Vectors for the cache, from the encoder that everything shares."""

from __future__ import annotations

from radixway.encoders import EncoderError, EncoderService
from radixway.semantic_cache.cache import CannotEmbed, Embed
from radixway.semantic_cache.entry import Vector


def embed_with(service: EncoderService) -> Embed:
    """A text's vector by way of `service`; where that is busy or broken, only literal repeats are found."""

    async def embed(text: str) -> Vector:
        try:
            return (await service.encode(text)).vector
        except EncoderError as error:
            raise CannotEmbed(str(error)) from None

    return embed
