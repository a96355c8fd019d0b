"""A client's request, whatever protocol it came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from radixway.core.parsers import AnswerFormat, ModelFamily, detect_thinking_place

Message: TypeAlias = dict[str, Any]
"""A message in the form of chat completions: `role`, `content`, `reasoning_content`, `tool_calls` …"""
Tool: TypeAlias = dict[str, Any]
"""`{"type": "function", "function": {"name", "description", "parameters", …}}`, checked."""


@dataclass(slots=True, kw_only=True)
class NormalizedRequest:
    """One request for one answer."""

    model: str | None
    messages: list[Message] = field(default_factory=list)
    """The conversation as this request tells it; empty for a plain prompt."""
    prompt: str | list[int] | None = None
    """A plain prompt, as text or token ids: completions only."""
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    """`auto`, `none`, `required` or `{"type": "function", "function": {"name": …}}`; None without tools."""
    parallel_tool_calls: bool = True
    sampling: dict[str, Any] = field(default_factory=dict)
    """What the client gave, under the names of /generate's `sampling_params`: `max_new_tokens`, `stop` …"""
    stream: bool = False
    include_usage: bool = False
    """The stream of a protocol that tells usage on request is to end with it."""
    top_logprobs: int | None = None
    """Log-probabilities are asked for, with so many alternatives to each token; None: they are not."""
    return_token_ids: bool = False
    template_arguments: dict[str, Any] = field(default_factory=dict)
    """What the chat template sees beside the messages: `enable_thinking`, `reasoning_effort` …"""
    continue_final_message: bool = False
    """The last message is the beginning of the answer."""
    previous_response_id: str | None = None
    """The reply that this request goes on from; its messages come before these."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """The body as it came."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Its fields that the protocol here does not know."""

    @property
    def visible_tools(self) -> list[Tool] | None:
        """The tools that the template is given; None where the client forbids calls."""
        return None if self.tool_choice == "none" else self.tools

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of the answer; None: as many as fit."""
        most: int | None = self.sampling.get("max_new_tokens")
        return most

    def answer_format(self, family: ModelFamily, prompt: str) -> AnswerFormat:
        """Return how to read the answer of a model of this `family` to the rendered `prompt`.

        The text must contain the reading's `markers`, even where they are special tokens.
        """
        if self.prompt is not None:
            return AnswerFormat()
        continued = _content_text(self.messages[-1].get("content")) if self.continue_final_message else None
        tools = family.tools if self.visible_tools else None
        return AnswerFormat(
            detect_thinking_place(family.thinking, prompt, continued),
            tools,
            None if self.parallel_tool_calls else 1,
        )


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(_content_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
