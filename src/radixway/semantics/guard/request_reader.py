"""The texts of a request, token ids included where their tokenizer is here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from radixway.core.pipeline import BadRequest, Request, TokenizerOf
from radixway.semantics.guard.passages import (
    Place,
    RequestTexts,
    TextPassage,
    as_token_id,
    may_hold_ids,
    read_texts,
)
from radixway.semantics.guard.step_executor import run_in_thread

if TYPE_CHECKING:
    from radixway.core.tokenizer import Tokenizer

P = ParamSpec("P")
T = TypeVar("T")

_INLINE_BYTES = 2**16
"""A body up to here is read on the event loop: at most some milliseconds. A thread costs 50 µs."""
_CHARACTERS_OF_AN_ID = 4
"""Length that is assumed of a token id before it is decoded: the mean in English, about."""


class RequestTextReader:
    """Reads the texts of requests to every endpoint."""

    def __init__(self, tokenizer_of: TokenizerOf | None = None, max_characters: int | None = None) -> None:
        """`tokenizer_of`: of a model's name, where there are any. `max_characters`: of a request's texts."""
        self._tokenizer_of = tokenizer_of
        self._max_characters = max_characters

    async def read_request(self, request: Request) -> RequestTexts:
        """Read every text of `request`; the journal says what could not be read.

        Raises BadRequest: the body is no JSON, or has two meanings. Raises TextTooLongError.
        """
        texts = await run_on_body(request, self._read_body, request)
        ids = [place for place in texts.unread if is_token_ids(place, request.body)]
        if ids:
            tokenizer = None if self._tokenizer_of is None else (await self._tokenizer_of(request.model))[1]
            if tokenizer is not None:
                await run_in_thread(_decode_token_ids, tokenizer, ids, request.body, texts)
                ids = []
        if texts.unread:
            request.journal.add("guard_unread", parts=len(texts.unread), of_token_ids=len(ids))
        return texts

    def _read_body(self, request: Request) -> RequestTexts:
        _reject_duplicate_keys(request.raw)
        texts = read_texts(request.body, max_characters=self._max_characters)
        if request.form is not None:
            for name, value in request.body.items():
                if value is True:  # a file
                    texts.skip_value((name,))
        return texts


async def run_on_body(request: Request, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` on the body of `request` returns; a large body is handled in a thread."""
    if len(request.raw) <= _INLINE_BYTES:
        return work(*args, **kwargs)
    return await run_in_thread(work, *args, **kwargs)


def _reject_duplicate_keys(raw: bytes) -> None:
    """Raise BadRequest for a name that stands twice in an object: some readers take the first, some the last,
    so that what is read here might not be what the worker reads.
    """
    try:
        json.loads(raw, object_pairs_hook=_unique_keys)
    except _DuplicateKeyError:
        raise BadRequest("an object in the body has the same field twice; give each once") from None
    except RecursionError:  # the other reader bears a few levels more
        raise BadRequest("the body is nested too deeply") from None
    except ValueError:
        return  # decoding it later reports what is wrong


class _DuplicateKeyError(Exception):
    pass


def _unique_keys(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
        raise _DuplicateKeyError


def is_token_ids(place: Place, body: Mapping[str, Any]) -> bool:
    """Return whether `place` in `body` holds token ids."""
    return may_hold_ids(place) and isinstance(_value_at(body, place), list)


def _decode_token_ids(
    tokenizer: Tokenizer, places: Sequence[Place], body: Mapping[str, Any], texts: RequestTexts
) -> None:
    """Add the texts of the token ids at `places` to `texts`. Raises TextTooLongError before decoding."""
    texts.check_size(_CHARACTERS_OF_AN_ID * sum(len(_value_at(body, place)) for place in places), places[0])
    size = tokenizer.size
    for place in places:
        ids = _value_at(body, place)
        if set(map(type, ids)) != {int}:
            ids = [known for each in ids if (known := as_token_id(each)) is not None]
        text = tokenizer.decode([each for each in ids if 0 <= each < size])
        texts.add_passage(TextPassage(text, "user", place))
    decoded = frozenset(places)
    texts.unread = [place for place in texts.unread if place not in decoded]


def _value_at(body: Any, place: Place) -> Any:
    for part in place:
        body = body[part]
    return body
