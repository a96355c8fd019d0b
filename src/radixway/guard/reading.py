"""The texts of a request, token ids included where their tokenizer is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from radixway.guard.texts import Passage, Place, Texts, read_texts
from radixway.pipeline import Request, TokenizerOf

if TYPE_CHECKING:
    from radixway.tokenizer import Tokenizer


class Reading:
    """Reads requests of every surface."""

    def __init__(self, tokenizer_of: TokenizerOf | None = None) -> None:
        """`tokenizer_of`: of a model's name, where there are any."""
        self._tokenizer_of = tokenizer_of

    async def read(self, request: Request) -> Texts:
        """Every text; the journal says what could not be read. Raises BadRequest: the body is no JSON."""
        texts = read_texts(request.body)
        ids = [place for place in texts.unread if _is_ids(place)]
        if ids and (tokenizer := await self._tokenizer(request.model)) is not None:
            for place in ids:
                text = tokenizer.decode(_at(request.body, place))
                texts.unread.remove(place)
                texts.passages.append(Passage(text, "user", place))
        if texts.unread:
            request.journal.add(
                "guard_unread", parts=len(texts.unread), token_ids=sum(map(_is_ids, texts.unread))
            )
        return texts

    async def _tokenizer(self, model: str | None) -> Tokenizer | None:
        return None if self._tokenizer_of is None else (await self._tokenizer_of(model))[1]


def _is_ids(place: Place) -> bool:
    return place[0] in ("input_ids", "prompt", "prompt_token_ids")


def _at(body: Any, place: Place) -> list[int]:
    for part in place:
        body = body[part]
    return [each for each in body if isinstance(each, int)]
