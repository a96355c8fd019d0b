"""An answer, complete or growing, in no protocol's form.

thinking ─ text ─ call ─ call ─ text …      the blocks, in the order in which the model wrote them
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from radixway.core.parsers import CallDelta, ReadPart, ThinkingPart
from radixway.core.protocols.request import Message

StopReason = Literal["stop", "length", "abort", "content_filter"]
"""`content_filter`: the guard ended it."""
FinishReason = Literal["stop", "length", "abort", "content_filter", "tool_calls"]
BlockKind = Literal["thinking", "text", "call"]


@dataclass(slots=True, frozen=True)
class SampledTokenLogprob:
    """A sampled token and its log-probability, natural logarithm."""

    token: bytes
    logprob: float
    top: Sequence[tuple[bytes, float]] = ()
    """The most likely tokens in its place."""


@dataclass(slots=True, frozen=True)
class AnswerDelta:
    """An addition to an answer: the text that is certain, and the tokens that made it grow."""

    parts: Sequence[ReadPart] = ()
    token_ids: Sequence[int] = ()
    scores: Sequence[SampledTokenLogprob] = ()


@dataclass(slots=True, frozen=True)
class FinishInfo:
    """The reason why an answer ended, and its token counts. Counts are tokens."""

    reason: StopReason
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """Prompt tokens that the worker had cached."""
    reasoning_tokens: int = 0
    """Output tokens of reasoning, if counted."""
    stop: str | None = None
    """The stop string that ended it, if one did."""


@dataclass(slots=True, frozen=True)
class ReplyMetadata:
    """The id, model and time of a reply."""

    id: str
    """Id of the request. Each protocol puts a prefix of its own before it."""
    model: str
    created: int
    """Seconds since the epoch."""
    prompt_ids: Sequence[int] = ()
    """Token ids of the prompt."""


@dataclass(slots=True)
class ContentBlock:
    """A run of the answer: thinking, text, or one tool call with its arguments (JSON, as it was written)."""

    kind: BlockKind
    pieces: list[str] = field(default_factory=list)
    call_id: str = ""
    name: str = ""
    scores: list[SampledTokenLogprob] = field(default_factory=list)
    """Its tokens' log-probabilities, where they are told."""

    @property
    def text(self) -> str:
        """Return all text so far."""
        return "".join(self.pieces)


class GeneratedAnswer:
    """An answer so far; the same whatever pieces it came in."""

    def __init__(self) -> None:
        self.blocks: list[ContentBlock] = []
        self.token_ids: list[int] = []
        self.scores: list[SampledTokenLogprob] = []
        self._unplaced: list[SampledTokenLogprob] = []
        """Log-probabilities of tokens whose text has not come yet."""

    def apply_delta(self, growth: AnswerDelta) -> None:
        """Add `growth`."""
        self.add_scores(growth.scores)
        for part in growth.parts:
            self.add_part(part)
        self.token_ids += growth.token_ids

    def add_scores(self, scores: Sequence[SampledTokenLogprob]) -> None:
        """Add `scores`, of tokens whose text is in the parts that come next, or in later ones."""
        self.scores += scores
        self._unplaced += scores

    def place_scores(self, scores: Sequence[SampledTokenLogprob]) -> None:
        """Give the blocks their shares of `scores`, the log-probabilities of the whole answer."""
        self.add_scores(scores)
        for block in self.blocks:
            known = b"".join(score.token for score in self._unplaced)
            if block.text.encode("utf-8", "replace") in known:
                block.scores = self._take_scores(block.text)

    def add_part(self, part: ReadPart) -> bool:
        """Add `part`; return whether a new block began with it."""
        if isinstance(part, CallDelta):
            begins = part.name is not None
            if begins:
                self.blocks.append(ContentBlock("call", call_id=part.id or "", name=part.name or ""))
            text = part.arguments
        else:
            kind: BlockKind = "thinking" if isinstance(part, ThinkingPart) else "text"
            begins = not self.blocks or self.blocks[-1].kind != kind
            if begins:
                self.blocks.append(ContentBlock(kind))
            text = part.text
        if text:
            self.blocks[-1].pieces.append(text)
            self.blocks[-1].scores += self._take_scores(text)
        return begins

    def _take_scores(self, text: str) -> list[SampledTokenLogprob]:
        """Return the log-probabilities of `text`, and drop those of markers and spaces before it."""
        if not self._unplaced:
            return []
        begin = b"".join([score.token for score in self._unplaced]).find(text.encode("utf-8", "replace"))
        end = begin + len(text.encode("utf-8", "replace"))
        taken, at, count = [], 0, 0
        for score in self._unplaced:
            if begin >= 0 and at >= end:
                break
            at, count = at + len(score.token), count + 1
            if begin < 0 or at > begin:
                taken.append(score)
        del self._unplaced[:count]
        return taken

    @property
    def reasoning(self) -> str:
        """Return all reasoning."""
        return self._joined_text("thinking")

    @property
    def content(self) -> str:
        """Return all content, before and after tool calls."""
        return self._joined_text("text")

    @property
    def calls(self) -> list[ContentBlock]:
        """The tool calls."""
        return [block for block in self.blocks if block.kind == "call"]

    def finish_reason(self, reason: StopReason) -> FinishReason:
        """Return `reason` as chat completions do: an answer that stops after calls waits for tools."""
        return "tool_calls" if reason == "stop" and self.calls else reason

    def to_message(self) -> Message:
        """The answer as a message of the conversation. Each protocol reads its own reply back as this."""
        return build_assistant_message(self.reasoning, self.content, self.calls)

    def _joined_text(self, kind: BlockKind) -> str:
        return "".join(block.text for block in self.blocks if block.kind == kind)


def build_assistant_message(reasoning: str, content: str, calls: Iterable[ContentBlock]) -> Message:
    """Build an assistant's message of chat completions from `reasoning`, `content` and `calls`."""
    tool_calls = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
        for call in calls
    ]
    message: Message = {"role": "assistant", "content": content or (None if tool_calls else "")}
    if reasoning:
        message["reasoning_content"] = reasoning
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message


class AssistantTurn:
    """Gathers the pieces of one assistant's message, in the order of chat completions whatever theirs."""

    def __init__(self) -> None:
        self.reasoning: list[str] = []
        self.content: list[str] = []
        self.calls: list[ContentBlock] = []

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content or self.calls)

    def add_tool_call(self, call_id: str, name: str, arguments: str) -> None:
        """Add a tool call; `arguments` is JSON."""
        self.calls.append(ContentBlock("call", [arguments], call_id, name))

    def to_message(self) -> Message:
        """The message, equal to `GeneratedAnswer.to_message()` of the answer that came back."""
        return build_assistant_message("".join(self.reasoning), "".join(self.content), self.calls)


def join_content(parts: Sequence[str | dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Join texts and images to content: one text is a string, several are parts, which the template joins."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
