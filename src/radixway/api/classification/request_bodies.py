"""Bodies of the classification API, checked in its words; work that ends when its client disconnects.

Work that ends when whoever asked for it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import Request

from radixway.api.classification.errors import ClassificationApiError
from radixway.core.http import decode_json

T = TypeVar("T")


async def decode_body(request: Request, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode the body of `request` with `decoder`. Raises BadBodyError."""
    return decode_json(decoder, await request.body())


def check_text_given(text: str | None, field: str = "text") -> str:
    """Return `text`. Raises ClassificationApiError, naming `field`, unless there is something in it."""
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


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which is cancelled when the client of `request` disconnects. The body must
    have been read.

    Raises ClassificationApiError then, which nobody reads.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClassificationApiError("the client left", status=499, code="CLIENT_GONE")
        return working.result()
    finally:
        leaving.cancel()
        working.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
