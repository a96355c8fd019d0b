"""The protocols that models are called by, as pure conversions: a body to a NormalizedRequest, a
GeneratedAnswer to a reply or its events. The gateway's sessions and the engine's server answer through them.
"""

from radixway.core.protocols.answer import (
    AnswerDelta,
    ContentBlock,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
    SampledTokenLogprob,
    build_assistant_message,
)
from radixway.core.protocols.anthropic import AnthropicAdapter
from radixway.core.protocols.base import EventWriter, ProtocolAdapter
from radixway.core.protocols.chat import ChatAdapter
from radixway.core.protocols.completions import CompletionsAdapter
from radixway.core.protocols.request import Message, NormalizedRequest, Tool
from radixway.core.protocols.responses import ResponsesAdapter

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
