"""What a request asks, as text: the part of it that signals are read from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from radixway.core.pipeline import Request
from radixway.semantics.prompts import PromptReading, read_conversation, read_prompt


@dataclass(frozen=True, slots=True)
class RequestQuestion:
    """The text of one request. Signals see this and nothing else of it."""

    text: str
    """What is asked: the ask of the last user message that has one, with the turn it goes on from; without
    any, all other messages."""
    whole: str = ""
    """All text of the messages, tool calls and reasoning included: for signals that depend on length, and
    for content that must not pass anywhere."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The client's headers that travel on, names in lower case."""
    message: str = ""
    """All of that user message or prompt: for words that must not pass. Empty where `text` is all of it."""
    reading: PromptReading | None = None
    """What of that message or prompt was left out, and why."""
    turns_back: int = 0
    """How many user turns before it stands the one it goes on from, which is part of `text`; 0: none."""

    def explain(self) -> dict[str, Any] | None:
        """Return what was left out of the user's message and which turn it goes on from, without a word of
        them; None where all of one message was read."""
        entry: dict[str, Any] = {}
        if self.reading is not None and len(self.reading.parts) > 1:
            entry = self.reading.explain()
        if self.turns_back:
            entry["turns_back"] = self.turns_back
        return entry or None


_NO_TEXT = frozenset(
    {
        "role",
        "type",
        "id",
        "tool_call_id",
        "image_url",
        "video_url",
        "audio_url",
        "input_audio",
        "file",
        "url",
    }
)
"""Fields of messages and parts without text."""


_FIELDS = frozenset({"messages", "input", "prompt", "text", "system", "instructions", "tools"})
"""Fields that `read_question` reads; tools are left out."""


def question_of(request: Request) -> RequestQuestion:
    """Return the question of a request: of its endpoint's `text_fields` alone, as workers read no others."""
    endpoint, body = request.endpoint, request.body
    fields = {name: body[name] for name in endpoint.text_fields if name in body}
    question = read_question(fields, request.headers)
    if endpoint.generates and _FIELDS.issuperset(endpoint.text_fields):
        return question
    text = "\n".join(_iter_texts([*fields.values()]))
    return RequestQuestion(text, text, question.headers)


def read_question(body: Mapping[str, Any], headers: tuple[tuple[bytes, bytes], ...] = ()) -> RequestQuestion:
    """Return the question of a chat completion or Anthropic's Messages (`messages`), a Response (`input`), a
    completion (`prompt`) or `/generate` (`text`).

    Text parts of a message's content are lines of it, as for the semantic cache, so that one pass of the
    encoder does for both; words and patterns do not tell its end from a space. Other parts say nothing here.
    """
    named = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    messages = body.get("messages") or body.get("input")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list):
        return question_in(_prompt_text(body.get("prompt")) or _prompt_text(body.get("text")), named)
    turns = [
        (message.get("role"), content_text(message.get("content"))) for message in filter_objects(messages)
    ]
    sources = [body.get("system"), body.get("instructions"), *messages]
    whole = "\n".join(_iter_texts(sources))
    if (read := read_conversation(turns)) is not None:
        return RequestQuestion(read.ask, whole, named, read.message, read.reading, read.turns_back)
    said = [text for role, text in turns if text and role != "user"] or [text for _, text in turns if text]
    return RequestQuestion(" ".join(said), whole, named)


def question_in(text: str, headers: Mapping[str, str] | None = None) -> RequestQuestion:
    """Return the question of a prompt that stands alone."""
    reading = read_prompt(text)
    return RequestQuestion(reading.ask or text, text, headers or {}, text, reading)


def content_text(content: Any) -> str:
    """Return the text of a message's content: a string, or parts of which some are text."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in filter_objects(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def _iter_texts(messages: list[Any]) -> Iterator[str]:
    """Yield every text of messages in order, without recursion, since clients choose the nesting."""
    waiting = messages[::-1]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if value:
                yield value
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, dict):
            waiting.extend(each for name, each in reversed(value.items()) if name not in _NO_TEXT)


def _prompt_text(prompt: Any) -> str:
    if isinstance(prompt, list):
        return " ".join(text for text in prompt if isinstance(text, str))
    return prompt if isinstance(prompt, str) else ""


def filter_objects(items: Any) -> Iterator[Mapping[str, Any]]:
    """Return what of a decoded list are objects; none where it is no list."""
    return (item for item in items if isinstance(item, dict)) if isinstance(items, list) else iter(())
