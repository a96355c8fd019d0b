"""The texts of a request, token ids included where their tokenizer is here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from radixway.guard.texts import Passage, Place, Texts, read_texts
from radixway.pipeline import BadRequest, Request, TokenizerOf

if TYPE_CHECKING:
    from radixway.tokenizer import Tokenizer


class Reading:
    """Reads requests of every surface."""

    def __init__(self, tokenizer_of: TokenizerOf | None = None) -> None:
        """`tokenizer_of`: of a model's name, where there are any."""
        self._tokenizer_of = tokenizer_of

    async def read(self, request: Request) -> Texts:
        """Every text; the journal says what could not be read.

        Raises BadRequest: the body is no JSON, or has two meanings.
        """
        _check_names(request.raw)
        texts = read_texts(request.body)
        if ids := [place for place in texts.unread if is_ids(place, request.body)]:
            tokenizer = await self._tokenizer(request.model)
            if tokenizer is not None:
                texts.passages += (_decoded(tokenizer, place, request.body) for place in ids)
                texts.unread = [place for place in texts.unread if place not in ids]
                ids = []
        if texts.unread:
            request.journal.add("guard_unread", parts=len(texts.unread), of_token_ids=len(ids))
        return texts

    async def _tokenizer(self, model: str | None) -> Tokenizer | None:
        return None if self._tokenizer_of is None else (await self._tokenizer_of(model))[1]


def _check_names(raw: bytes) -> None:
    """Of a name that stands twice in an object some readers take the first, some the last: what is read here
    would not be what the worker reads. Raises BadRequest.
    """
    try:
        json.loads(raw, object_pairs_hook=_named_once)
    except _Twice:
        raise BadRequest("an object in the body has the same field twice; give each once") from None
    except (ValueError, RecursionError):
        return  # whoever decodes it says what is wrong


class _Twice(Exception):
    """A name stands twice."""


def _named_once(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
        raise _Twice


def is_ids(place: Place, body: Mapping[str, Any]) -> bool:
    """Whether what stands there are token ids."""
    return place[0] in ("input_ids", "prompt") and isinstance(_at(body, place), list)


def _decoded(tokenizer: Tokenizer, place: Place, body: Mapping[str, Any]) -> Passage:
    ids = [each for each in _at(body, place) if isinstance(each, int) and 0 <= each < tokenizer.size]
    return Passage(tokenizer.decode(ids), "user", place)


def _at(body: Any, place: Place) -> Any:
    for part in place:
        body = body[part]
    return body
