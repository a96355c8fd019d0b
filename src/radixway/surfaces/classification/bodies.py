"""Bodies of the classification API, checked in its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from fastapi import Request

from radixway.surfaces.classification.errors import ApiError
from radixway.web import read_json

T = TypeVar("T")


async def body_of(request: Request, decoder: msgspec.json.Decoder[T]) -> T:
    """The decoded body. Raises BadBody."""
    return read_json(decoder, await request.body())


def check_text(text: str | None, field: str = "text") -> str:
    """Raises ApiError unless there is something in it."""
    if text is None:
        raise ApiError(f"{field} field is required", param=field)
    if not text.strip():
        raise ApiError(f"{field} cannot be empty", param=field)
    return text


def check_texts(texts: Sequence[str] | None, most: int, field: str = "texts") -> Sequence[str]:
    """Raises ApiError unless there is at least one text, at most `most`, and something in each."""
    if texts is None:
        raise ApiError(f"{field} field is required", param=field)
    if not texts:
        raise ApiError(f"{field} array cannot be empty", param=field)
    if len(texts) > most:
        raise ApiError(
            f"{field} has {len(texts)} texts; at most {most} are taken at a time "
            "(semantic.api.batch_classification.max_batch_size)",
            param=field,
        )
    for index, text in enumerate(texts):
        check_text(text, f"{field}[{index}]")
    return texts
