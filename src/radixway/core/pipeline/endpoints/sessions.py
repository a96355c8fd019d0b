"""Endpoints that agents call within a session, in four protocols.

Workers are asked at `/generate` for all of them.
"""

from __future__ import annotations

from typing import Any

from radixway.core.pipeline.endpoints.base import (
    Endpoint,
    ParsedRequest,
    ReplyForm,
    RequestBody,
    Staleness,
    Version,
    named_user,
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


SESSION_CHAT = Endpoint(
    path="/sessions/{session_id}/v1/chat/completions",
    name="session.openai.chat",
    description="OpenAI's chat completions, recorded as a session's.",
    body=SessionBody,
    text_fields=("messages", "tools"),
    reply_form=ReplyForm.CHAT,
    takes_tools=True,
)
SESSION_COMPLETIONS = Endpoint(
    path="/sessions/{session_id}/v1/completions",
    name="session.openai.completions",
    description="OpenAI's completions, recorded likewise.",
    body=SessionBody,
    text_fields=("prompt",),
    reply_form=ReplyForm.COMPLETION,
)
SESSION_RESPONSES = Endpoint(
    path="/sessions/{session_id}/v1/responses",
    name="session.openai.responses",
    description="OpenAI's responses, recorded likewise.",
    body=SessionBody,
    text_fields=("input", "instructions", "tools"),
    reply_form=ReplyForm.RESPONSE,
    takes_tools=True,
)
SESSION_MESSAGES = Endpoint(
    path="/sessions/{session_id}/v1/messages",
    name="session.anthropic.messages",
    description="Anthropic's messages, recorded likewise.",
    body=SessionBody,
    text_fields=("messages", "system", "tools"),
    reply_form=ReplyForm.MESSAGE,
    takes_tools=True,
)
