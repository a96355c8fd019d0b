"""How the answers of a request are read: thinking first, then content and tool calls."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from radixway.parsers.family import MARKERS, ToolFamily
from radixway.parsers.marked import HermesCalls, Llama3Calls, MistralCalls
from radixway.parsers.parts import Call, CallParser, Part, Text, Thought
from radixway.parsers.pythonic import PythonicCalls
from radixway.parsers.thinking import CLOSES, OPENS, Place, Thinking

_PARSERS: dict[ToolFamily, Callable[[], CallParser]] = {
    "hermes": HermesCalls,
    "llama3": Llama3Calls,
    "mistral": MistralCalls,
    "pythonic": PythonicCalls,
}


@dataclass(slots=True)
class CallDelta:
    """What is added to one tool call; id and name come with its first part."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


ReadPart: TypeAlias = Thought | Text | CallDelta


@dataclass(slots=True)
class Delta:
    """What is added to a message."""

    reasoning: str = ""
    content: str = ""
    calls: list[CallDelta] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content or self.calls)

    def add(self, part: ReadPart) -> None:
        """Take in what comes next. What is said between calls and what after them becomes one text."""
        match part:
            case Thought(text):
                self.reasoning += text
            case Text(text):
                self.content += text
            case CallDelta(index) if self.calls and self.calls[-1].index == index:
                self.calls[-1].arguments += part.arguments
            case CallDelta():
                self.calls.append(part)


@dataclass(slots=True, frozen=True)
class Reading:
    """How to read each answer of a request."""

    place: Place = "after"
    tools: ToolFamily | None = None
    most_calls: int | None = None
    """More calls than these are passed over (`parallel_tool_calls: false`)."""

    @property
    def markers(self) -> tuple[str, ...]:
        """What must be in the text for the reader to see it, even where it is special tokens."""
        markers = () if self.tools is None else MARKERS[self.tools]
        return markers if self.place == "after" else (*markers, OPENS, CLOSES)

    def reader(self) -> "AnswerReader":
        """A reader at the beginning of an answer."""
        return AnswerReader(self)


class AnswerReader:
    """Reads one answer, in whatever pieces it comes."""

    def __init__(self, reading: Reading) -> None:
        self._thinking = None if reading.place == "after" else Thinking(reading.place)
        self._calls = None if reading.tools is None else _PARSERS[reading.tools]()
        self._most_calls = reading.most_calls
        self._short_ids = reading.tools == "mistral"
        self._begun = 0

    @property
    def called(self) -> bool:
        """Whether a tool call has begun."""
        return self._begun > 0

    def push(self, text: str, *, last: bool) -> Delta:
        """What is certain of the message now; all of it after the `last` piece."""
        delta = Delta()
        for part in self.read(text, last=last):
            delta.add(part)
        return delta

    def read(self, text: str, *, last: bool) -> list[ReadPart]:
        """The same as `push` in the order in which the model wrote it; no part is empty."""
        read: list[ReadPart] = []
        if self._thinking is not None:
            thought, text = self._thinking.push(text)
            if last:
                rest_of_thought, rest = self._thinking.finish()
                thought += rest_of_thought
                text += rest
            if thought:
                read.append(Thought(thought))
        if self._calls is None:
            return [*read, Text(text)] if text else read
        parts = self._calls.push(text)
        for part in [*parts, *self._calls.finish()] if last else parts:
            self._read_part(read, part)
        return read

    def _read_part(self, read: list[ReadPart], part: Part) -> None:
        if isinstance(part, Text):
            read.append(part)
            return
        if isinstance(part, Call):
            self._begun += 1
        if self._most_calls is not None and self._begun > self._most_calls:
            return
        if isinstance(part, Call):
            read.append(CallDelta(self._begun - 1, self._new_id(), part.name))
        elif part.text:
            read.append(CallDelta(self._begun - 1, arguments=part.text))

    def _new_id(self) -> str:
        """Mistral's templates take ids of nine characters only."""
        return uuid.uuid4().hex[:9] if self._short_ids else f"call_{uuid.uuid4().hex[:24]}"
