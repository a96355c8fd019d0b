"""An answer of `/generate`, whole or in events, on its way to become an answer in the client's protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from radixway.parsers import Reading, ReadPart
from radixway.surfaces.agents.errors import Refused
from radixway.surfaces.agents.speaking import Speaking
from radixway.surfaces.wires import Answer, Ask, Ending, Growth, TokenScore
from radixway.trajectories.replies import LastWords, Sampled, Unusable, read_answers
from radixway.trajectories.sessions import Finish
from radixway.web.server_sent_events import iterate_data

_BROKEN = "\ufffd"


class _Meta(msgspec.Struct):
    finish_reason: dict[str, Any] | None = None
    cached_tokens: int | None = None


class _Event(msgspec.Struct):
    """What every event must be looked at for; its lists are left undecoded."""

    meta_info: _Meta
    text: str | None = None


class _Rows(msgspec.Struct):
    output_token_logprobs: list[list[float | str | None]] | None = None
    output_top_logprobs: list[list[list[float | str | None]] | None] | None = None


class _Tokens(msgspec.Struct):
    """An event whose tokens the client wants to see."""

    output_ids: list[int]
    meta_info: _Rows


_event = msgspec.json.Decoder(_Event).decode
_tokens = msgspec.json.Decoder(_Tokens).decode


class Heard:
    """Reads one answer; `answer` is what has come of it so far."""

    def __init__(self, ask: Ask, reading: Reading, speaking: Speaking) -> None:
        self._ask = ask
        self._speaking = speaking
        self._reader = reading.reader()
        self._words = LastWords()
        self._whole = b""
        self._text = 0
        """Characters of the text that were given to the reader."""
        self._seen = 0
        """Tokens that were shown to the client."""
        self._meta = _Meta()
        self.answer = Answer()
        self.begun = False
        """Something of it has come."""

    @property
    def ended(self) -> bool:
        """The worker has said why it stopped."""
        return self._meta.finish_reason is not None

    def hear(self, chunk: bytes) -> Growth:
        """Whole events; what they add. Raises Refused for what is no answer, or an error of the worker's."""
        parts: list[ReadPart] = []
        ids: list[int] = []
        scores: list[TokenScore] = []
        for data in iterate_data(chunk):
            event = _read(data)
            try:
                self._words.hear_event(data)
            except Unusable as error:
                raise _garbage(error) from None
            growth = self._grow(data, event, new_only=self._words.brings_new_only)
            parts += growth.parts
            ids += growth.token_ids
            scores += growth.scores
        return Growth(parts, ids, scores)

    def hear_whole(self, body: bytes) -> Growth:
        """A reply that does not stream. Raises Refused for what is no answer."""
        self._whole = body
        return self._grow(body, _read(body), new_only=False)

    def sampled(self) -> Sampled:
        """The tokens so far. Raises Refused where the worker does not say which they are."""
        try:
            told = read_answers(self._whole)[0] if self._whole else self._words.answer()
        except Unusable as error:
            raise _garbage(error) from None
        if told.ids and not 0 <= min(told.ids) <= max(told.ids) < 2**32:
            raise _garbage(ValueError("output_ids holds what is no token id"))
        return told

    def rest(self) -> Growth:
        """What was held back because more text could have changed it. Nothing comes after."""
        growth = Growth(self._reader.read("", last=True))
        self.answer.grow(growth)
        return growth

    @property
    def finish(self) -> Finish:
        """Why it ended; `abort` where nobody said."""
        match (self._meta.finish_reason or {}).get("type"):
            case "stop":
                return "stop"
            case "length":
                return "length"
        return "abort"

    @property
    def stop(self) -> str | None:
        """The stop string that ended it, if one did."""
        matched = (self._meta.finish_reason or {}).get("matched")
        return matched if isinstance(matched, str) and matched in self._ask.sampling.get("stop", ()) else None

    def ending(self, prompt_tokens: int, sampled: Sampled) -> Ending:
        """What it took."""
        cached = min(max(self._meta.cached_tokens or 0, 0), prompt_tokens)
        return Ending(self.finish, prompt_tokens, len(sampled.ids), cached, stop=self.stop)

    def _grow(self, data: bytes, event: _Event, *, new_only: bool) -> Growth:
        self._meta, self.begun = event.meta_info, True
        if refusal := _refusal(event):
            raise refusal
        text = event.text or ""
        new = text if new_only else text[self._text :]
        if not self.ended and not new_only:
            new = new.rstrip(_BROKEN)  # the rest of a character may follow
        self._text += len(new)
        growth = Growth(self._reader.read(new, last=False), *self._shown(data, new_only=new_only))
        self.answer.grow(growth)
        return growth

    def _shown(self, data: bytes, *, new_only: bool) -> tuple[list[int], list[TokenScore]]:
        """The new tokens and their scores, where the client asks for them."""
        if not self._ask.return_token_ids and self._ask.top_logprobs is None:
            return [], []
        try:
            return self._shown_of(_tokens(data), new_only=new_only)
        except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError, ValueError) as error:
            raise _garbage(error) from None

    def _shown_of(self, told: _Tokens, *, new_only: bool) -> tuple[list[int], list[TokenScore]]:
        """Raises LookupError, TypeError, ValueError for rows that are not `[log-probability, id, …]`."""
        ids = told.output_ids if new_only else told.output_ids[self._seen :]
        self._seen += len(ids)
        if self._ask.top_logprobs is None:
            return ids, []
        rows = (told.meta_info.output_token_logprobs or [])[-len(ids) :] if ids else []
        tops = (told.meta_info.output_top_logprobs or [])[-len(ids) :] if ids else []
        try:
            return ids, list(self._scores(rows, tops))
        except (IndexError, TypeError, ValueError) as error:
            raise _garbage(error) from None

    def _scores(self, rows: list[Any], tops: list[Any]) -> Iterator[TokenScore]:
        pieces = self._speaking.tokenizer.token_bytes
        for at, row in enumerate(rows):
            top = [
                (pieces[_token(other[1])], float(other[0]))
                for other in (tops[at] if at < len(tops) else None) or ()
            ]
            yield TokenScore(pieces[_token(row[1])], float(row[0] if row[0] is not None else 0.0), top)


def _token(value: Any) -> int:
    """A token id, which JSON may have spelled 5.0. Raises ValueError for what is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no token id")
    return value


def _read(data: bytes) -> _Event:
    try:
        return _event(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refused(502, data) if b'"error"' in data else _garbage(error) from None


def _refusal(event: _Event) -> Refused | None:
    """A worker's refusal in the form of an aborted answer, which is SGLang's."""
    reason = event.meta_info.finish_reason or {}
    status = reason.get("status_code")
    if reason.get("type") != "abort" or not isinstance(status, int) or not 400 <= status < 600:
        return None
    return Refused(str(reason.get("message") or "the worker refused the request"), status=status)


def refused(status: int, body: bytes) -> Refused:
    """A worker's error, in its own words where it has some."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = None
    while isinstance(said, dict):
        said = next((said[name] for name in ("error", "message", "detail") if said.get(name)), None)
    words = said if isinstance(said, str) else f"the worker answered with status {status}"
    return Refused(words, status=status if 400 <= status < 600 else 502)


def _garbage(error: Exception) -> Refused:
    return Refused(f"the worker's answer cannot be understood: {error}", status=502, code="worker_failed")
