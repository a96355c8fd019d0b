"""The OpenAI surface: chat completions and completions."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.surfaces.exchange import (
    Asked,
    Milliseconds,
    ModelName,
    Priority,
    Rids,
    named_rids,
    named_user,
)
from radixway.web import BadBody, read_json

_Count = Annotated[int, Meta(ge=0)] | None


class Message(msgspec.Struct):
    """One message; what else it has is the worker's to read."""

    role: str
    content: str | list[Any] | None = None


class _Sampling(msgspec.Struct, kw_only=True):
    """The fields that every worker understands the same way."""

    model: ModelName | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: _Count = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    priority: Priority = None
    ttft_slo_ms: Milliseconds = None
    user: Any = None
    safety_identifier: Any = None
    rid: Rids = None


class ChatBody(_Sampling, kw_only=True):
    """What the gateway reads of a chat completion; all other fields travel on as they are."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: _Count = None


class CompletionBody(_Sampling, kw_only=True):
    """What the gateway reads of a completion; all other fields travel on as they are."""

    prompt: str | list[Any]


class _OpenAISurface:
    """What both endpoints share: which two fields the gateway needs, and the methods."""

    methods: tuple[str, ...] = ("POST",)

    _decoder: msgspec.json.Decoder[Any]

    def read(self, raw: bytes) -> Asked:
        body: _Sampling = read_json(self._decoder, raw)
        if body.stream_options is not None and not body.stream:
            message = "stream_options is for streams only: give stream: true, or leave it out"
            raise BadBody(message, param="stream_options", code="invalid_value")
        user = named_user(body.user, body.safety_identifier)
        answers = (body.n or 1) * self._prompts_in(body)
        return Asked(
            body.model,
            bool(body.stream),
            body.priority,
            body.ttft_slo_ms,
            rids=named_rids(body.rid),
            user=user,
            answers=answers,
        )

    def _prompts_in(self, body: Any) -> int:
        return 1


class ChatCompletions(_OpenAISurface):
    """`POST /v1/chat/completions`."""

    name = "openai.chat"
    _decoder = msgspec.json.Decoder(ChatBody)


class Completions(_OpenAISurface):
    """`POST /v1/completions`."""

    name = "openai.completions"
    _decoder = msgspec.json.Decoder(CompletionBody)

    def _prompts_in(self, body: CompletionBody) -> int:
        """Several texts, or several lists of token ids."""
        prompt = body.prompt
        return len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
