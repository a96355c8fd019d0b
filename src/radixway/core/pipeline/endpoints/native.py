"""Surfaces of agents that workers may have themselves: Anthropic's messages, OpenAI's responses.

Requests are passed on as they are to a worker that has the surface (`api/native_surfaces.py` says when).
"""

from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta

from radixway.core.pipeline.endpoints.base import Endpoint, ParsedRequest, ReplyForm, RequestBody, named_user
from radixway.core.pipeline.endpoints.generation import CHAT_COMPLETIONS

_Count = Annotated[int, Meta(ge=1)] | None


class MessagesBody(RequestBody, kw_only=True):
    """The fields that the gateway reads of Anthropic's messages; all others travel on as they are."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    system: str | list[Any] | None = None
    tools: list[Any] | None = None
    max_tokens: _Count = None
    stream: bool | None = None
    metadata: Any = None
    """Has `user_id`."""

    def parse(self) -> ParsedRequest:
        user_id = self.metadata.get("user_id") if isinstance(self.metadata, dict) else None
        return ParsedRequest(
            self.model,
            bool(self.stream),
            self.priority,
            self.ttft_slo_ms,
            user=named_user(user_id),
            max_answer_tokens=self.max_tokens or 0,
        )


class ResponseBody(RequestBody, kw_only=True):
    """The fields that the gateway reads of a response's request; all others travel on as they are."""

    input: str | list[Any]
    instructions: str | None = None
    tools: list[Any] | None = None
    max_output_tokens: _Count = None
    stream: bool | None = None
    user: Any = None
    safety_identifier: Any = None

    def parse(self) -> ParsedRequest:
        return ParsedRequest(
            self.model,
            bool(self.stream),
            self.priority,
            self.ttft_slo_ms,
            user=named_user(self.user, self.safety_identifier),
            max_answer_tokens=self.max_output_tokens or 0,
        )


_RESPONSE_FIELDS = ("instructions", "input", "tools")
_MESSAGE_FIELDS = ("system", "messages", "tools")
MESSAGES = Endpoint(
    path="/v1/messages",
    name="anthropic.messages",
    description="Anthropic's messages: a conversation's answer, whole or streamed.",
    body=MessagesBody,
    text_fields=_MESSAGE_FIELDS,
    reply_form=ReplyForm.MESSAGE,
    takes_tools=True,
    by_surface=True,
)
COUNT_TOKENS = replace(
    MESSAGES,
    path="/v1/messages/count_tokens",
    name="anthropic.count_tokens",
    description="How many tokens the prompt of Anthropic's messages has.",
    reply_form=ReplyForm.POOLING,
)
RESPONSES = Endpoint(
    path="/v1/responses",
    name="openai.responses",
    description="OpenAI's responses: an answer, whole or streamed.",
    body=ResponseBody,
    text_fields=_RESPONSE_FIELDS,
    reply_form=ReplyForm.RESPONSE,
    takes_tools=True,
    by_surface=True,
)
COUNT_RESPONSE_TOKENS = replace(
    RESPONSES,
    path="/v1/responses/input_tokens",
    name="openai.response_tokens",
    description="How many tokens the prompt of a response has.",
    reply_form=ReplyForm.POOLING,
)
COUNT_CHAT_TOKENS = replace(
    CHAT_COMPLETIONS,
    path="/v1/chat/completions/input_tokens",
    name="openai.chat_tokens",
    description="How many tokens the prompt of a chat completion has; asked by the gateway itself alone.",
    reply_form=ReplyForm.POOLING,
    chooses_model=False,
    is_cacheable=False,
)
