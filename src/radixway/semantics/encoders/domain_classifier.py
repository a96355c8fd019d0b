"""Who says what domain a text belongs to: a classifier where one is given, else the shipped head."""

from __future__ import annotations

from radixway.semantics.encoders.classifiers.category_head import CategoryEncoder, CategoryHead
from radixway.semantics.encoders.heads import DOMAIN_HEAD, DomainHead
from radixway.semantics.encoders.service import EncoderService


async def load_domain_classifier(encoders: EncoderService) -> DomainHead | CategoryHead:
    """The head that fits the service's encoder, loaded. Raises EncoderError."""
    encoder = await encoders.wait_until_ready()
    if isinstance(encoder, CategoryEncoder):
        return CategoryHead()
    return DomainHead.load_file(DOMAIN_HEAD, encoder)
