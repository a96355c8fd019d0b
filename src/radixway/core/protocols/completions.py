"""Completions: a plain prompt, as text or token ids, and what follows it."""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta

from radixway.core.http import decode_open_struct
from radixway.core.protocols.answer import (
    AnswerDelta,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
    SampledTokenLogprob,
)
from radixway.core.protocols.base import EventWriter, OpenAIErrors, encode
from radixway.core.protocols.chat import ChunkWriter, OpenAIRequestFields, chat_usage, finite_logprob
from radixway.core.protocols.request import NormalizedRequest, field_error, require_single_answer

_DEFAULT_MAX_TOKENS = 16  # OpenAI's


class _CompletionsBody(OpenAIRequestFields, kw_only=True):
    prompt: str | list[Any]
    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None


class CompletionsAdapter(OpenAIErrors):
    """`POST …/v1/completions`."""

    name = "openai.completions"

    def parse_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body: `prompt` is one text or one list of ids. Raises BadBodyError (400)."""
        body, fields, extra = decode_open_struct(raw, _CompletionsBody)
        body.check_supported()
        require_single_answer("best_of", body.best_of)
        for name in ("echo", "suffix"):
            if getattr(body, name):
                raise field_error(name, "is not supported in a session", code="unsupported")
        max_tokens = _DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
        return NormalizedRequest(
            model=body.model,
            prompt=_parse_prompt(body.prompt),
            sampling=body.sampling(max_tokens=max_tokens, stop=body.stop),
            stream=bool(body.stream),
            include_usage=body.include_usage,
            top_logprobs=body.logprobs,
            return_token_ids=bool(body.return_token_ids),
            body=fields,
            extra=extra,
        )

    def encode_reply(
        self, ask: NormalizedRequest, head: ReplyMetadata, answer: GeneratedAnswer, ending: FinishInfo
    ) -> bytes:
        """Encode `answer` as a `text_completion`."""
        events = _CompletionEventWriter(ask, head)
        growth = AnswerDelta(token_ids=answer.token_ids, scores=answer.scores)
        reply = events.build_chunk(answer.content, growth, ending.reason, ending.stop)
        reply["usage"] = chat_usage(ending)
        return encode(reply)

    def create_event_writer(self, ask: NormalizedRequest, head: ReplyMetadata) -> EventWriter:
        """Create a writer of the reply to `ask` in chunks, and `[DONE]`."""
        return _CompletionEventWriter(ask, head)


class _CompletionEventWriter(ChunkWriter):
    """Writes text deltas and follows how far the tokens' text has come."""

    def __init__(self, ask: NormalizedRequest, head: ReplyMetadata) -> None:
        super().__init__(ask, head, f"cmpl-{head.id}", "text_completion")
        self._offset = 0
        """Characters of the tokens whose log-probabilities were sent."""
        self._sent_prompt = False

    def encode_start(self) -> bytes:
        return b""  # a completion has no role

    def encode_delta(self, growth: AnswerDelta) -> bytes:
        answer = GeneratedAnswer()
        answer.apply_delta(growth)
        if not (answer.content or self._is_wanted(growth)):
            return b""
        return self._encode_chunk(self.build_chunk(answer.content, growth))

    def encode_end(self, ending: FinishInfo) -> bytes:
        return self._encode_last(self.build_chunk("", AnswerDelta(), ending.reason, ending.stop), ending)

    def build_chunk(
        self, text: str, growth: AnswerDelta, finish: str | None = None, stop: str | None = None
    ) -> dict[str, Any]:
        """An object with this text; the prompt's ids are in the first, if ids are asked for."""
        choice: dict[str, Any] = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
        if self._ask.top_logprobs is not None and growth.scores:
            choice["logprobs"] = self._logprobs(growth.scores)
        if stop is not None:
            choice["stop_reason"] = stop
        if self._ask.return_token_ids:
            choice["token_ids"] = list(growth.token_ids)
            if not self._sent_prompt:
                choice["prompt_token_ids"] = list(self._head.prompt_ids)
                self._sent_prompt = True
        return {**self._base_fields, "choices": [choice]}

    def _logprobs(self, scores: Iterable[SampledTokenLogprob]) -> dict[str, Any]:
        columns: dict[str, Any] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for score in scores:
            token = score.token.decode("utf-8", "replace")
            columns["tokens"].append(token)
            columns["token_logprobs"].append(finite_logprob(score.logprob))
            columns["top_logprobs"].append(
                {token: finite_logprob(score.logprob)}
                | {top.decode("utf-8", "replace"): finite_logprob(logprob) for top, logprob in score.top}
            )
            columns["text_offset"].append(self._offset)
            self._offset += len(token)
        return columns


def _parse_prompt(given: str | list[Any]) -> str | list[int]:
    """Return the one prompt. Raises BadBodyError (400) for none, several, or another type."""
    if isinstance(given, str):
        return given
    prompts = given if given and all(isinstance(item, str | list) for item in given) else [given]
    if len(prompts) > 1:
        raise field_error(
            "prompt", f"must be one prompt in a session, not {len(prompts)}", code="unsupported"
        )
    prompt = prompts[0]
    if isinstance(prompt, str):
        return prompt
    if not prompt:
        raise field_error("prompt", "is empty", code="empty_prompt")
    if not all(type(token_id) is int and token_id >= 0 for token_id in prompt):
        raise field_error("prompt", "must be a text or a list of token ids")
    return [*prompt]
