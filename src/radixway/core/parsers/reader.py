"""Readers of the answers of a request: thinking first, then content and tool calls."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from radixway.core.parsers.parts import (
    CLOSES,
    OPENS,
    CallParser,
    Part,
    ReasoningSplitter,
    TextPart,
    ThinkingPart,
    ThinkingPlace,
    ToolCallStart,
)
from radixway.core.parsers.tool_calls import (
    HermesCallParser,
    Llama3CallParser,
    MistralCallParser,
    PythonicCallParser,
)

ToolFamily = Literal["hermes", "llama3", "mistral", "pythonic"]
ThinkingStyle = Literal["qwen3", "deepseek_r1"]

MARKERS: dict[ToolFamily, tuple[str, ...]] = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "llama3": ("<|python_tag|>",),
    "mistral": ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    "pythonic": (),
}
"""Strings that must be in the text for the parser, even where they are special tokens."""


@dataclass(slots=True, frozen=True)
class ModelFamily:
    """The way one model writes, as far as is known; None: it calls no tools, it does not think."""

    tools: ToolFamily | None = None
    thinking: ThinkingStyle | None = None

    @classmethod
    def detect_family(
        cls,
        templates: Iterable[str],
        *,
        tools: ToolFamily | Literal["auto", "none"] = "auto",
        thinking: ThinkingStyle | Literal["auto", "none"] = "auto",
    ) -> "ModelFamily":
        """The family of a model with these chat templates (their sources), where an operator names none."""
        template = "\n".join(templates)
        return cls(
            detect_tool_family(template) if tools == "auto" else None if tools == "none" else tools,
            detect_thinking_style(template)
            if thinking == "auto"
            else None
            if thinking == "none"
            else thinking,
        )


def detect_tool_family(template: str) -> ToolFamily | None:
    """Return how a model with this chat `template` writes tool calls; None if in no way known here."""
    if "<tool_call>" in template and "<function=" not in template and "<arg_key>" not in template:
        return "hermes"
    if "[TOOL_CALLS]" in template:
        return "mistral"
    if "func_name1(params_name1=" in template:
        return "pythonic"
    if "<|python_tag|>" in template or ("Environment: ipython" in template and '"parameters"' in template):
        return "llama3"
    return None


def detect_thinking_style(template: str) -> ThinkingStyle | None:
    """Return how a model with this chat `template` marks its thinking; None if it does not think."""
    if OPENS in template:
        return "qwen3"
    return "deepseek_r1" if CLOSES in template else None


def detect_thinking_place(style: ThinkingStyle | None, prompt: str, continued: str | None) -> ThinkingPlace:
    """Return where the answer to `prompt` begins; `continued`: what of the message is there already."""
    if style is None:
        return "after"
    if continued is not None:
        return "inside" if continued.rfind(OPENS) > continued.rfind(CLOSES) else "after"
    prompt = prompt.rstrip()
    if prompt.endswith(OPENS):
        return "inside"
    if prompt.endswith(CLOSES):
        return "after"
    return "before" if style == "qwen3" else "inside"


_PARSERS: dict[ToolFamily, Callable[[], CallParser]] = {
    "hermes": HermesCallParser,
    "llama3": Llama3CallParser,
    "mistral": MistralCallParser,
    "pythonic": PythonicCallParser,
}


@dataclass(slots=True)
class CallDelta:
    """An addition to one tool call; id and name come with its first part."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


ReadPart: TypeAlias = ThinkingPart | TextPart | CallDelta


@dataclass(slots=True)
class MessageDelta:
    """An addition to a message."""

    reasoning: str = ""
    content: str = ""
    calls: list[CallDelta] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content or self.calls)

    def add_part(self, part: ReadPart) -> None:
        """Add `part`, which comes next. What is said between calls and what after them becomes one text."""
        match part:
            case ThinkingPart(text):
                self.reasoning += text
            case TextPart(text):
                self.content += text
            case CallDelta(index) if self.calls and self.calls[-1].index == index:
                self.calls[-1].arguments += part.arguments
            case CallDelta():
                self.calls.append(part)


@dataclass(slots=True, frozen=True)
class AnswerFormat:
    """The format of each answer of a request."""

    place: ThinkingPlace = "after"
    tools: ToolFamily | None = None
    max_calls: int | None = None
    """More calls than these are passed over (`parallel_tool_calls: false`)."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Markers that must be in the text for the reader to see it, even where it is special tokens."""
        markers = () if self.tools is None else MARKERS[self.tools]
        return markers if self.place == "after" else (*markers, OPENS, CLOSES)

    def create_reader(self) -> "AnswerTextReader":
        """A reader at the beginning of an answer."""
        return AnswerTextReader(self)


class AnswerTextReader:
    """Reads one answer, in pieces of any size."""

    def __init__(self, reading: AnswerFormat) -> None:
        self._thinking = None if reading.place == "after" else ReasoningSplitter(reading.place)
        self._calls = None if reading.tools is None else _PARSERS[reading.tools]()
        self._max_calls = reading.max_calls
        self._short_ids = reading.tools == "mistral"
        self._begun = 0

    @property
    def has_tool_call(self) -> bool:
        """True if a tool call has begun."""
        return self._begun > 0

    def read_delta(self, text: str, *, last: bool) -> MessageDelta:
        """Return what is certain of the message now; all of it after the `last` piece."""
        delta = MessageDelta()
        for part in self.read_parts(text, last=last):
            delta.add_part(part)
        return delta

    def read_parts(self, text: str, *, last: bool) -> list[ReadPart]:
        """Return the parts of `read_delta` in the order in which the model wrote it; no part is empty."""
        read: list[ReadPart] = []
        if self._thinking is not None:
            thought, text = self._thinking.split_text(text)
            if last:
                rest_of_thought, rest = self._thinking.flush_held_back()
                thought += rest_of_thought
                text += rest
            if thought:
                read.append(ThinkingPart(thought))
        if self._calls is None:
            return [*read, TextPart(text)] if text else read
        parts = self._calls.feed_text(text)
        for part in [*parts, *self._calls.flush_parts()] if last else parts:
            self._read_part(read, part)
        return read

    def _read_part(self, read: list[ReadPart], part: Part) -> None:
        if isinstance(part, TextPart):
            read.append(part)
            return
        if isinstance(part, ToolCallStart):
            self._begun += 1
        if self._max_calls is not None and self._begun > self._max_calls:
            return
        if isinstance(part, ToolCallStart):
            read.append(CallDelta(self._begun - 1, self._new_call_id(), part.name))
        elif part.text:
            read.append(CallDelta(self._begun - 1, arguments=part.text))

    def _new_call_id(self) -> str:
        """Return nine characters, as Mistral's templates demand."""
        return uuid.uuid4().hex[:9] if self._short_ids else f"call_{uuid.uuid4().hex[:24]}"
