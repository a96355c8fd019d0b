"""Bodies of the classification API, checked in its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from fastapi import Request

from radixway.surfaces.classification.errors import ClassificationApiError
from radixway.web import decode_json

T = TypeVar("T")


async def decode_body(request: Request, decoder: msgspec.json.Decoder[T]) -> T:
    """The decoded body. Raises BadBody."""
    return decode_json(decoder, await request.body())


def check_text_given(text: str | None, field: str = "text") -> str:
    """Raises ClassificationApiError unless there is something in it."""
    if text is None:
        raise ClassificationApiError(f"{field} field is required", param=field)
    if not text.strip():
        raise ClassificationApiError(f"{field} cannot be empty", param=field)
    return text


def check_texts_given(texts: Sequence[str] | None, most: int, field: str = "texts") -> Sequence[str]:
    """Raises ClassificationApiError unless there is at least one text, at most `most`, and something in
    each.
    """
    if texts is None:
        raise ClassificationApiError(f"{field} field is required", param=field)
    if not texts:
        raise ClassificationApiError(f"{field} array cannot be empty", param=field)
    if len(texts) > most:
        raise ClassificationApiError(
            f"{field} has {len(texts)} texts; at most {most} are taken at a time "
            "(semantic.api.batch_classification.max_batch_size)",
            param=field,
        )
    for index, text in enumerate(texts):
        check_text_given(text, f"{field}[{index}]")
    return texts
