"""The protocols that agents speak, as pure conversions: a body to an Ask, an Answer to a reply or its events.

What lies between, sessions do: they render the Ask to token ids, call a worker's /generate and read its text.
"""

from radixway.surfaces.wires.answer import (
    AnswerDelta,
    ContentBlock,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
    SampledTokenLogprob,
    build_assistant_message,
)
from radixway.surfaces.wires.anthropic import AnthropicAdapter
from radixway.surfaces.wires.ask import Message, NormalizedRequest, Tool
from radixway.surfaces.wires.base import EventWriter, ProtocolAdapter
from radixway.surfaces.wires.chat import ChatAdapter
from radixway.surfaces.wires.completions import CompletionsAdapter
from radixway.surfaces.wires.responses import ResponsesAdapter

__all__ = [
    "AnswerDelta",
    "AnthropicAdapter",
    "ChatAdapter",
    "CompletionsAdapter",
    "ContentBlock",
    "EventWriter",
    "FinishInfo",
    "GeneratedAnswer",
    "Message",
    "NormalizedRequest",
    "ProtocolAdapter",
    "ReplyMetadata",
    "ResponsesAdapter",
    "SampledTokenLogprob",
    "Tool",
    "build_assistant_message",
]
