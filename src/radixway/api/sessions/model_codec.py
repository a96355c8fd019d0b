"""The codec of one model: its tokenizer, its prompts, and the reading of its `/generate` replies."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from radixway.api.sessions.errors import WorkerRefusedError
from radixway.core.http.server_sent_events import iterate_data
from radixway.core.parsers import AnswerFormat, ModelFamily, ReadPart
from radixway.core.pipeline import GatewayError, TokenizerOf
from radixway.core.protocols import (
    AnswerDelta,
    FinishInfo,
    GeneratedAnswer,
    NormalizedRequest,
    SampledTokenLogprob,
)
from radixway.trajectories.generate_replies import (
    SampledTokens,
    SingleAnswerReader,
    UnusableReplyError,
    read_sampled_tokens,
)
from radixway.trajectories.sessions import Finish, PromptBuilder, SessionPrompt

if TYPE_CHECKING:
    from radixway.core.tokenizer import Tokenizer


class ModelCodec:
    """Renders and parses one model's conversations."""

    def __init__(self, model: str, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.prompting = PromptBuilder(tokenizer)
        self._family = ModelFamily.detect_family(
            template.source for template in tokenizer.chat_templates.values()
        )

    def answer_format(self, ask: NormalizedRequest, prompt: SessionPrompt) -> AnswerFormat:
        """Return how to read the answer to `prompt`."""
        ends_with = prompt.ids or [0]
        reading = ask.answer_format(self._family, self.prompting.prompt_ending(ends_with))
        if prompt.resumes and prompt.parent is not None and self._family.thinking is not None:
            answer = prompt.parent.answer
            inside = bool(answer.get("reasoning_content")) and not answer.get("content")
            return replace(reading, place="inside" if inside else "after")
        return reading

    def hides_markers(self, reading: AnswerFormat) -> bool:
        """Return whether a text without special tokens would lack a marker that `reading` looks for."""
        special = self.tokenizer.special_ids
        ids = map(self.tokenizer.backend.token_to_id, reading.markers)
        return any(token_id in special for token_id in ids)


_BROKEN = "\ufffd"


class _EventMeta(msgspec.Struct):
    finish_reason: dict[str, Any] | None = None
    cached_tokens: int | None = None


class _GenerateEvent(msgspec.Struct):
    """The fields that every event is read for; its lists stay undecoded."""

    meta_info: _EventMeta
    text: str | None = None


class _LogprobRows(msgspec.Struct):
    output_token_logprobs: list[list[float | str | None]] | None = None
    output_top_logprobs: list[list[list[float | str | None]] | None] | None = None


class _TokenEvent(msgspec.Struct):
    """An event whose tokens the client asked for."""

    output_ids: list[int]
    meta_info: _LogprobRows


_event = msgspec.json.Decoder(_GenerateEvent).decode
_tokens = msgspec.json.Decoder(_TokenEvent).decode


class GenerateResponseReader:
    """Reads one answer; `answer` is what has come of it so far."""

    def __init__(self, ask: NormalizedRequest, reading: AnswerFormat, codec: ModelCodec) -> None:
        self._ask = ask
        self._codec = codec
        self._reader = reading.create_reader()
        self._answer_reader = SingleAnswerReader()
        self._body = b""
        self._text = 0
        """Characters of text that the parser was given."""
        self._seen = 0
        """Tokens sent to the client."""
        self._meta = _EventMeta()
        self.answer = GeneratedAnswer()
        self.begun = False

    @property
    def is_finished(self) -> bool:
        """The worker has said why it stopped."""
        return self._meta.finish_reason is not None

    def read_events(self, chunk: bytes) -> AnswerDelta:
        """Return what `chunk`, whole events, adds. Raises WorkerRefusedError for an error or no answer."""
        parts: list[ReadPart] = []
        ids: list[int] = []
        scores: list[SampledTokenLogprob] = []
        for data in iterate_data(chunk):
            event = _decode_event(data)
            try:
                self._answer_reader.read_event_json(data)
            except UnusableReplyError as error:
                raise _unreadable_answer(error) from None
            growth = self._apply_event(data, event, new_only=self._answer_reader.is_incremental)
            parts += growth.parts
            ids += growth.token_ids
            scores += growth.scores
        return AnswerDelta(parts, ids, scores)

    def read_whole_reply(self, body: bytes) -> AnswerDelta:
        """Return the answer in `body`, which does not stream. Raises WorkerRefusedError where it is none."""
        self._body = body
        return self._apply_event(body, _decode_event(body), new_only=False)

    def sampled_tokens(self) -> SampledTokens:
        """The tokens so far. Raises WorkerRefusedError where the worker does not say which they are."""
        try:
            sampled = read_sampled_tokens(self._body)[0] if self._body else self._answer_reader.answer()
        except UnusableReplyError as error:
            raise _unreadable_answer(error) from None
        if sampled.ids and not 0 <= min(sampled.ids) <= max(sampled.ids) < 2**32:
            raise _unreadable_answer(ValueError("output_ids holds what is no token id"))
        return sampled

    def flush_held_back(self) -> AnswerDelta:
        """Return what was held back because more text could have changed it. Nothing comes after."""
        growth = AnswerDelta(self._reader.read_parts("", last=True))
        self.answer.apply_delta(growth)
        return growth

    @property
    def finish_reason(self) -> Finish:
        """Return why the answer ended; `abort` where the worker did not say."""
        match (self._meta.finish_reason or {}).get("type"):
            case "stop":
                return "stop"
            case "length":
                return "length"
        return "abort"

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended it, if one did."""
        matched = (self._meta.finish_reason or {}).get("matched")
        return matched if isinstance(matched, str) and matched in self._ask.sampling.get("stop", ()) else None

    def finish_info(self, prompt_tokens: int, sampled: SampledTokens) -> FinishInfo:
        """Return the finish reason and counts, for a prompt of `prompt_tokens` tokens."""
        cached = min(max(self._meta.cached_tokens or 0, 0), prompt_tokens)
        return FinishInfo(self.finish_reason, prompt_tokens, len(sampled.ids), cached, stop=self.stop_string)

    def _apply_event(self, data: bytes, event: _GenerateEvent, *, new_only: bool) -> AnswerDelta:
        self._meta, self.begun = event.meta_info, True
        if refusal := _refusal(event):
            raise refusal
        text = event.text or ""
        new = text if new_only else text[self._text :]
        if not self.is_finished and not new_only:
            new = new.rstrip(_BROKEN)  # the rest of a character may follow
        self._text += len(new)
        growth = AnswerDelta(
            self._reader.read_parts(new, last=False), *self._visible_tokens(data, new_only=new_only)
        )
        self.answer.apply_delta(growth)
        return growth

    def _visible_tokens(self, data: bytes, *, new_only: bool) -> tuple[list[int], list[SampledTokenLogprob]]:
        if not self._ask.return_token_ids and self._ask.top_logprobs is None:
            return [], []
        try:
            event = _tokens(data)
            ids = event.output_ids if new_only else event.output_ids[self._seen :]
            self._seen += len(ids)
            if self._ask.top_logprobs is None or not ids:
                return ids, []
            rows = (event.meta_info.output_token_logprobs or [])[-len(ids) :]
            tops = (event.meta_info.output_top_logprobs or [])[-len(ids) :]
            return ids, list(self._scores(rows, tops))
        except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError, ValueError) as error:
            # Rows that are not `[log-probability, id, …]`, too.
            raise _unreadable_answer(error) from None

    def _scores(self, rows: list[Any], tops: list[Any]) -> Iterator[SampledTokenLogprob]:
        pieces = self._codec.tokenizer.token_bytes
        for at, row in enumerate(rows):
            top = [
                (pieces[_parse_token_id(other[1])], float(other[0]))
                for other in (tops[at] if at < len(tops) else None) or ()
            ]
            yield SampledTokenLogprob(
                pieces[_parse_token_id(row[1])], float(row[0] if row[0] is not None else 0.0), top
            )


def _parse_token_id(value: Any) -> int:
    """Return a token id, which JSON may spell 5.0. Raises ValueError."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no token id")
    return value


def _decode_event(data: bytes) -> _GenerateEvent:
    try:
        return _event(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise worker_refused(502, data) if b'"error"' in data else _unreadable_answer(error) from None


def _refusal(event: _GenerateEvent) -> WorkerRefusedError | None:
    """Return a worker's refusal as an aborted answer, as SGLang does."""
    reason = event.meta_info.finish_reason or {}
    status = reason.get("status_code")
    if reason.get("type") != "abort" or not isinstance(status, int) or not 400 <= status < 600:
        return None
    return WorkerRefusedError(str(reason.get("message") or "the worker refused the request"), status=status)


def worker_refused(status: int, body: bytes) -> WorkerRefusedError:
    """Build the error of a worker's reply with `status`, in the words of its `body` where it has some."""
    try:
        detail = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        detail = None
    while isinstance(detail, dict):
        detail = next((detail[name] for name in ("error", "message", "detail") if detail.get(name)), None)
    words = detail if isinstance(detail, str) else f"the worker answered with status {status}"
    return WorkerRefusedError(words, status=status if 400 <= status < 600 else 502)


def _unreadable_answer(error: Exception) -> WorkerRefusedError:
    return WorkerRefusedError(
        f"the worker's answer cannot be understood: {error}", status=502, code="worker_failed"
    )


class ModelCodecs:
    """The codec of each model, the `max_models` most recently used."""

    def __init__(self, tokenizer_of: TokenizerOf, max_models: int = 64) -> None:
        """`max_models` bounds memory: where one tokenizer serves all, clients can invent models."""
        self._tokenizer_of = tokenizer_of
        self._max_models = max_models
        self._codecs: OrderedDict[str, ModelCodec] = OrderedDict()

    def __len__(self) -> int:
        return len(self._codecs)

    async def codec_for(self, model: str | None) -> ModelCodec:
        """Return the codec of `model`. Raises GatewayError (503) where there is no tokenizer for it."""
        name, tokenizer = await self._tokenizer_of(model)
        if tokenizer is None:
            raise GatewayError(
                f"the tokenizer of the model {name or model or ''!r} is not known here: set "
                "trajectories.tokenizer or routing.tokenizers, and install radixway[tokenizers]",
                status=503,
                code="no_tokenizer",
            )
        codec = self._codecs.get(name)
        if codec is None or codec.tokenizer is not tokenizer:
            codec = self._codecs[name] = ModelCodec(name, tokenizer)
        self._codecs.move_to_end(name)
        if len(self._codecs) > self._max_models:
            self._codecs.popitem(last=False)
        return codec
