"""OpenAI's chat completions and completions."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.core.http import BadBodyError
from radixway.core.pipeline.endpoints.base import (
    Endpoint,
    ParsedRequest,
    ReplyForm,
    RequestBody,
    Rids,
    named_rids,
    named_user,
)

_Count = Annotated[int, Meta(ge=0)] | None


class Message(msgspec.Struct):
    """One message; what else it has is the worker's to read."""

    role: str
    content: str | list[Any] | None = None


class _SamplingBody(RequestBody, kw_only=True):
    """The fields that every worker understands the same way."""

    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: _Count = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
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
        )

    def _count_prompts(self) -> int:
        return 1


class ChatBody(_SamplingBody, kw_only=True):
    """The fields that the gateway reads of a chat completion; all other fields travel on as they are."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: _Count = None


class CompletionBody(_SamplingBody, kw_only=True):
    """The fields that the gateway reads of a completion; all other fields travel on as they are."""

    prompt: str | list[Any]

    def _count_prompts(self) -> int:
        """Several texts, or several lists of token ids."""
        prompt = self.prompt
        return len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1


CHAT_COMPLETIONS = Endpoint(
    path="/v1/chat/completions",
    name="openai.chat",
    description="A conversation's answer, whole or streamed. `model: auto` leaves it open.",
    body=ChatBody,
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
    text_fields=("prompt",),
    reply_form=ReplyForm.COMPLETION,
    chooses_model=True,
    is_cacheable=True,
    operation="text_completion",
)
