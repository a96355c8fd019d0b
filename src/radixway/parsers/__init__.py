"""From an answer's text to a message: what was thought, what was said, which tools were called.

Everything here reads text in pieces and gives out what is certain; how a text is divided changes nothing.
`Family.of` tells from a model's chat templates how it writes, `Reading` how to read one request's answers.
The engine reads its own answers with it, the gateway those of workers that answer in tokens.
"""

from radixway.parsers.family import (
    MARKERS,
    Family,
    ThinkingStyle,
    ToolFamily,
    thinking_place,
    thinking_style,
    tool_family,
)
from radixway.parsers.parts import Arguments, Call, CallParser, Part, Text, Thought, undecided_from
from radixway.parsers.reader import AnswerReader, CallDelta, Delta, Reading, ReadPart
from radixway.parsers.thinking import CLOSES, OPENS, Place, Thinking

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
    "Family",
    "Part",
    "Place",
    "ReadPart",
    "Reading",
    "Text",
    "Thinking",
    "ThinkingStyle",
    "Thought",
    "ToolFamily",
    "thinking_place",
    "thinking_style",
    "tool_family",
    "undecided_from",
]
