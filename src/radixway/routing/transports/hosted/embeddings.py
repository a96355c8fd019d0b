"""Embeddings of providers with another API, in OpenAI's shape."""

import base64
import struct
from dataclasses import dataclass
from typing import Annotated, Any, Self

import msgspec

from radixway.core.pipeline import Request
from radixway.core.protocols.request import field_error
from radixway.routing.transports.hosted.base import read_count

_Vector = Annotated[list[float], msgspec.Meta(min_length=1)]
_TEXT_BYTES_PER_TOKEN = 4
"""English text with most tokenizers; for what a provider does not count."""


@dataclass(slots=True, frozen=True)
class EmbeddingCall:
    """What a client asks for at `/v1/embeddings`."""

    model: str
    texts: list[str]
    dimensions: int | None
    """How long the vectors are to be; None: as the model makes them."""
    input_type: Any
    """Cohere's own field."""
    as_base64: bool

    @classmethod
    def from_request(cls, request: Request, model: str) -> Self:
        """Read `request`. Raises BadBodyError where its input is no text."""
        body = request.body
        given = body.get("input")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            why = "must be a text or a list of texts for this hosted model"
            raise field_error("input", why, code="unsupported")
        as_base64 = body.get("encoding_format") == "base64"
        return cls(model, texts, body.get("dimensions"), body.get("input_type"), as_base64)

    def build_answer(self, vectors: list[Any], tokens: Any) -> dict[str, Any]:
        """Return the answer with `vectors`, one for each text.

        `tokens`: those of the texts; None where the provider does not count them. Raises ValueError and
        OverflowError for what are no vectors.
        """
        if len(vectors) != len(self.texts):
            raise ValueError(f"{len(vectors)} vectors for {len(self.texts)} texts")
        data = [
            {"object": "embedding", "index": index, "embedding": self._write_vector(vector)}
            for index, vector in enumerate(vectors)
        ]
        size = sum(len(text.encode("utf-8", "replace")) for text in self.texts)
        count = read_count(tokens, -(-size // _TEXT_BYTES_PER_TOKEN))
        usage = {"prompt_tokens": count, "total_tokens": count}
        return {"object": "list", "data": data, "model": self.model, "usage": usage}

    def _write_vector(self, vector: Any) -> list[float] | str:
        numbers = msgspec.convert(vector, _Vector)
        if not self.as_base64:
            return numbers
        return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
