"""From an answer's text to a message: what was thought, what was said, which tools were called.

Everything here reads text in pieces and gives out what is certain; how a text is divided changes nothing.
`reader.py` puts the parsers together and chooses them by the chat template.
"""

from radixway.engine.server.parsers.parts import Arguments, Call, CallParser, Part, Text
from radixway.engine.server.parsers.reader import (
    MARKERS,
    AnswerReader,
    CallDelta,
    Delta,
    Reading,
    ThinkingStyle,
    ToolFamily,
    thinking_place,
    thinking_style,
    tool_family,
)
from radixway.engine.server.parsers.thinking import CLOSES, OPENS, Place, Thinking

__all__ = [
    "CLOSES",
    "MARKERS",
    "OPENS",
    "AnswerReader",
    "Arguments",
    "Call",
    "CallDelta",
    "CallParser",
    "Delta",
    "Part",
    "Place",
    "Reading",
    "Text",
    "Thinking",
    "ThinkingStyle",
    "ToolFamily",
    "thinking_place",
    "thinking_style",
    "tool_family",
]
