"""The protocols that agents speak, as pure conversions: a body to an Ask, an Answer to a reply or its events.

What lies between, sessions do: they render the Ask to token ids, call a worker's /generate and read its text.
"""

from radixway.surfaces.wires.answer import Answer, Block, Ending, Growth, Head, TokenScore, assistant_message
from radixway.surfaces.wires.anthropic import AnthropicWire
from radixway.surfaces.wires.ask import Ask, Message, Tool
from radixway.surfaces.wires.base import EventWriter, Wire
from radixway.surfaces.wires.chat import ChatWire
from radixway.surfaces.wires.completions import CompletionsWire
from radixway.surfaces.wires.responses import ResponsesWire

__all__ = [
    "Answer",
    "AnthropicWire",
    "Ask",
    "Block",
    "ChatWire",
    "CompletionsWire",
    "Ending",
    "EventWriter",
    "Growth",
    "Head",
    "Message",
    "ResponsesWire",
    "TokenScore",
    "Tool",
    "Wire",
    "assistant_message",
]
