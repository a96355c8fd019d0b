"""Who says what domain a text belongs to: a classifier where one is given, else the shipped head."""

from __future__ import annotations

from radixway.encoders.classifiers.category import CategoryHead, WithCategories
from radixway.encoders.heads import DOMAIN_HEAD, DomainHead
from radixway.encoders.service import EncoderService


async def domain_head(encoders: EncoderService) -> DomainHead | CategoryHead:
    """The head that fits the service's encoder, loaded. Raises EncoderError."""
    encoder = await encoders.ready()
    if isinstance(encoder, WithCategories):
        return CategoryHead()
    return DomainHead.load(DOMAIN_HEAD, encoder)
