"""Endpoints whose replies a model writes: OpenAI's, SGLang's `/generate`, and those within a session."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.core.http import BadBodyError
from radixway.core.pipeline.endpoints.base import (
    Endpoint,
    LargeBody,
    ParsedRequest,
    ReplyForm,
    RequestBody,
    Rids,
    Staleness,
    Version,
    named_rids,
    named_user,
)
from radixway.core.pipeline.endpoints.large_bodies import MANY_OBJECTS, check_items
from radixway.core.work_slices import WorkSlices

_Count = Annotated[int, Meta(ge=0)] | None


class Message(msgspec.Struct):
    """A message; further fields are the worker's."""

    role: str
    content: str | list[Any] | None = None


class _SamplingBody(RequestBody, kw_only=True):
    """Fields that every worker understands alike."""

    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: _Count = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    best_of: Any = None
    user: Any = None
    safety_identifier: Any = None
    rid: Rids = None

    def parse(self) -> ParsedRequest:
        if self.stream_options is not None and not self.stream:
            message = "stream_options is for streams only: give stream: true, or leave it out"
            raise BadBodyError(message, param="stream_options", code="invalid_value")
        return ParsedRequest(
            self.model,
            bool(self.stream),
            self.priority,
            self.ttft_slo_ms,
            rids=named_rids(self.rid),
            user=named_user(self.user, self.safety_identifier),
            answers=(self.n or 1) * self._count_prompts(),
            max_answer_tokens=self._limit_answer() if self.best_of is None else None,
        )

    def _count_prompts(self) -> int:
        return 1

    def _limit_answer(self) -> int:
        return self.max_tokens or 0


class _ChatSamplingBody(_SamplingBody, kw_only=True):
    """The same, of chats."""

    max_completion_tokens: _Count = None

    def _limit_answer(self) -> int:
        """Return the larger limit: workers differ in which they take."""
        return max(self.max_completion_tokens or 0, self.max_tokens or 0)


class ChatBody(_ChatSamplingBody, kw_only=True):
    """The fields that the gateway reads of a chat completion; all other fields travel on as they are."""

    messages: Annotated[list[Message], Meta(min_length=1)]


class CompletionBody(_SamplingBody, kw_only=True):
    """The fields that the gateway reads of a completion; all other fields travel on as they are."""

    prompt: str | list[Any]

    def _count_prompts(self) -> int:
        """Count texts, or lists of token ids."""
        prompt = self.prompt
        return len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1


class _ContentPart(msgspec.Struct, gc=False):
    """A part of a message, which is the worker's to check."""


class _CheckedMessage(msgspec.Struct, gc=False):
    """A `Message`, checked and not read."""

    role: str
    content: str | list[_ContentPart | str | int | float | bool | list[Any] | None] | None = None


_checked_messages = msgspec.json.Decoder(list[_CheckedMessage])


class LargeChatBody(_ChatSamplingBody, LargeBody, kw_only=True):
    """A `ChatBody` of many messages."""

    messages: msgspec.Raw

    @classmethod
    def is_worthwhile(cls, raw: bytes) -> bool:
        return raw.count(b"{") >= MANY_OBJECTS

    def parse_in_slices(self) -> WorkSlices[ParsedRequest | None]:
        start = bytes(memoryview(self.messages)[:16])
        if start[:1] != b"[" or start[1:].lstrip()[:1] == b"]":
            return None
        yield from check_items(self.messages, _checked_messages, "messages")
        return self.parse()


class LargeCompletionBody(_SamplingBody, LargeBody, kw_only=True):
    """A `CompletionBody` of many token ids or prompts, which are not counted."""

    prompt: msgspec.Raw

    def parse_in_slices(self) -> WorkSlices[ParsedRequest | None]:
        start = bytes(memoryview(self.prompt)[:16])
        if start[:1] not in b'["':
            return None
        parsed = self.parse()
        yield
        is_single = start[:1] == b'"' or start[1:].lstrip()[:1] in b"-0123456789]"
        return parsed if is_single else msgspec.structs.replace(parsed, answers=None)


CHAT_COMPLETIONS = Endpoint(
    path="/v1/chat/completions",
    name="openai.chat",
    description="A conversation's answer, whole or streamed. `model: auto` leaves it open.",
    body=ChatBody,
    large_body=LargeChatBody,
    text_fields=("messages", "tools"),
    reply_form=ReplyForm.CHAT,
    chooses_model=True,
    is_cacheable=True,
    takes_tools=True,
)
COMPLETIONS = Endpoint(
    path="/v1/completions",
    name="openai.completions",
    description="What follows a prompt, whole or streamed.",
    body=CompletionBody,
    large_body=LargeCompletionBody,
    text_fields=("prompt",),
    reply_form=ReplyForm.COMPLETION,
    chooses_model=True,
    is_cacheable=True,
    operation="text_completion",
)

_NOTHING = (b"", b"null")


class SamplingParams(msgspec.Struct):
    """Sampling parameters that every worker understands the same way."""

    max_new_tokens: Annotated[int, Meta(ge=0)] | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    n: Any = None


class GenerateBody(RequestBody, kw_only=True):
    """What the gateway reads of a body for `/generate`, which names no model; the rest travels on."""

    # Token ids can be many and are the worker's to check: they are skipped over, not built.
    text: str | list[str] | None = None
    input_ids: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    input_embeds: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    sampling_params: SamplingParams | list[SamplingParams] | None = None
    stream: bool | None = None
    max_staleness: Staleness = None
    min_weight_version: Version = None
    rid: Rids = None

    def parse(self) -> ParsedRequest:
        given = (bytes(self.input_ids), bytes(self.input_embeds))
        if self.text is None and all(field in _NOTHING for field in given):
            raise BadBodyError("one of text and input_ids is needed", code="missing_field", param="text")
        return ParsedRequest(
            self.model,
            bool(self.stream),
            self.priority,
            self.ttft_slo_ms,
            self.max_staleness,
            self.min_weight_version,
            named_rids(self.rid),
            answers=1 if self._is_for_one() else None,
            max_answer_tokens=getattr(self.sampling_params, "max_new_tokens", None) or None,
        )

    def _is_for_one(self) -> bool:
        """Return whether a single answer is asked for."""
        sampling = self.sampling_params
        if (
            isinstance(self.text, list)
            or isinstance(sampling, list)
            or (sampling and sampling.n not in (None, 1))
        ):
            return False
        ids = bytes(memoryview(self.input_ids)[:16])
        return ids[:1] + ids[1:].lstrip()[:1] != b"[["


GENERATE = Endpoint(
    path="/generate",
    name="generate",
    description="SGLang's: text or token ids in, both out; `return_logprob` and the rest travel on.",
    body=GenerateBody,
    text_fields=("text",),
    reply_form=ReplyForm.GENERATE,
    methods=("POST", "PUT"),
    salt_field="extra_key",
    operation="text_completion",
)


class SessionBody(RequestBody, kw_only=True):
    """The fields that the gateway reads of any of them before the session reads the whole."""

    stream: bool | None = None
    max_staleness: Staleness = None
    min_weight_version: Version = None
    user: Any = None
    safety_identifier: Any = None
    metadata: Any = None
    """Anthropic's has `user_id`."""

    def parse(self) -> ParsedRequest:
        user_id = self.metadata.get("user_id") if isinstance(self.metadata, dict) else None
        return ParsedRequest(
            self.model,
            bool(self.stream),
            self.priority,
            self.ttft_slo_ms,
            self.max_staleness,
            self.min_weight_version,
            user=named_user(self.user, self.safety_identifier, user_id),
        )


_CHAT_FIELDS = ("messages", "tools")
_RESPONSE_FIELDS = ("input", "instructions", "tools")
_MESSAGE_FIELDS = ("messages", "system", "tools")
SESSION_ENDPOINTS = tuple(
    Endpoint(
        path=f"/sessions/{{session_id}}/v1/{path}",
        name=f"session.{name}",
        description=f"{protocol}, recorded as a session's.",
        body=SessionBody,
        text_fields=text_fields,
        reply_form=reply_form,
        takes_tools="tools" in text_fields,
    )
    for reply_form, path, name, protocol, text_fields in (
        (ReplyForm.CHAT, "chat/completions", "openai.chat", "OpenAI's chat completions", _CHAT_FIELDS),
        (ReplyForm.COMPLETION, "completions", "openai.completions", "OpenAI's completions", ("prompt",)),
        (ReplyForm.RESPONSE, "responses", "openai.responses", "OpenAI's responses", _RESPONSE_FIELDS),
        (ReplyForm.MESSAGE, "messages", "anthropic.messages", "Anthropic's messages", _MESSAGE_FIELDS),
    )
)
