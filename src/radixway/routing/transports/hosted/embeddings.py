"""Embeddings of providers with another API, in OpenAI's shape."""

import base64
import struct
from typing import Annotated, Any

import msgspec

from radixway.core.pipeline import Request
from radixway.core.protocols.request import field_error
from radixway.routing.transports.hosted.base import read_count

_Vector = Annotated[list[float], msgspec.Meta(min_length=1)]
_TEXT_BYTES_PER_TOKEN = 4
"""English text with most tokenizers; for what a provider does not count."""


def read_texts(request: Request) -> list[str]:
    """Return the texts of `input`. Raises BadBodyError where it has anything else."""
    given = request.body.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise field_error(
            "input", "must be a text or a list of texts for this hosted model", code="unsupported"
        )
    return texts


def read_dimensions(request: Request) -> int | None:
    """Return how long the vectors are to be; None where the model's own length is wanted."""
    dimensions: int | None = request.body.get("dimensions")
    return dimensions


def build_embeddings(request: Request, model: str, vectors: list[Any], tokens: Any) -> dict[str, Any]:
    """Return the answer to `request` with `vectors`, one for each of its texts.

    `tokens`: those of the texts; None where the provider does not count them. Raises ValueError and
    OverflowError for what are no vectors.
    """
    texts = read_texts(request)
    if len(vectors) != len(texts):
        raise ValueError(f"{len(vectors)} vectors for {len(texts)} texts")
    as_base64 = request.body.get("encoding_format") == "base64"
    data = []
    for index, vector in enumerate(vectors):
        numbers = msgspec.convert(vector, _Vector)
        packed = (
            base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode() if as_base64 else numbers
        )
        data.append({"object": "embedding", "index": index, "embedding": packed})
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    count = read_count(tokens, -(-size // _TEXT_BYTES_PER_TOKEN))
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"object": "list", "data": data, "model": model, "usage": usage}
