"""The protocols that agents speak, as pure conversions: a body to a NormalizedRequest, a GeneratedAnswer to a
reply or its events.
"""

from radixway.api.protocols.answer import (
    AnswerDelta,
    ContentBlock,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
    SampledTokenLogprob,
    build_assistant_message,
)
from radixway.api.protocols.anthropic import AnthropicAdapter
from radixway.api.protocols.base import EventWriter, ProtocolAdapter
from radixway.api.protocols.chat import ChatAdapter
from radixway.api.protocols.completions import CompletionsAdapter
from radixway.api.protocols.request import Message, NormalizedRequest, Tool
from radixway.api.protocols.responses import ResponsesAdapter

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
