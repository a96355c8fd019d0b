"""From an answer's text to a message: what was thought, what was said, which tools were called.

Everything here reads text in pieces and gives out what is certain; how a text is divided changes nothing.
`ModelFamily.detect_family` tells from a model's chat templates how it writes, `AnswerFormat` how to read one
request's answers.
The engine reads its own answers with it, the gateway those of workers that answer in tokens.
"""

from radixway.core.parsers.call_forms import CALL_FORMS, forced_call_family
from radixway.core.parsers.parts import CLOSES, OPENS, TextPart, ThinkingPart, partial_match_start
from radixway.core.parsers.reader import (
    MARKERS,
    AnswerFormat,
    AnswerTextReader,
    CallDelta,
    MessageDelta,
    ModelFamily,
    ReadPart,
    ToolFamily,
    detect_thinking_place,
)
from radixway.core.parsers.reasoning_tokens import ReasoningTokenCounter

__all__ = [
    "CALL_FORMS",
    "CLOSES",
    "MARKERS",
    "OPENS",
    "AnswerFormat",
    "AnswerTextReader",
    "CallDelta",
    "MessageDelta",
    "ModelFamily",
    "ReadPart",
    "ReasoningTokenCounter",
    "TextPart",
    "ThinkingPart",
    "ToolFamily",
    "detect_thinking_place",
    "forced_call_family",
    "partial_match_start",
]
