"""The forms of answers, in whole replies and in events alike: where their texts stand, how they end.

JSON is read as workers write it: also with halves of surrogate pairs, which strict readers refuse.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import msgspec

from radixway.core.pipeline import ReplyForm

_decode = msgspec.json.Decoder().decode


def decode_json(raw: bytes) -> Any:
    """Decode `raw`. Raises ValueError, RecursionError, OverflowError for what is no JSON."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(raw)


def encode_json(data: Any) -> bytes:
    """Encode `data` as `decode_json` reads it."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode("ascii")


Json: TypeAlias = dict[str, Any]

FILTERED = "content_filter"
"""The finish reason of an answer that a guard ended."""

_TEXTS = ("reasoning_content", "reasoning", "reasoning_details", "content", "refusal")
_HEAD = ("id", "object", "created", "model", "system_fingerprint")


@dataclass(frozen=True, slots=True)
class AnswerField:
    """One text of an answer."""

    name: str
    """Within its answer: `content`, `tool_calls[0].arguments`."""
    holder: Json
    key: str
    in_json: bool = False

    @property
    def text(self) -> str:
        """The text as it is now."""
        text: str = self.holder[self.key]
        return text

    def set_text(self, text: str) -> None:
        """Replace the text by `text`."""
        self.holder[self.key] = text


class AnswerForm(ABC):
    """One protocol's answers: where their texts stand, and how they end."""

    place: ClassVar[str]
    """The list of answers, as findings name it."""

    def place_name(self, index: int) -> str:
        """Return the name that findings give the answer of that `index`."""
        return f"{self.place}[{index}]"

    @abstractmethod
    def list_answers(self, data: Any) -> list[tuple[int, Json]]:
        """Return the answers in `data`, a reply or an event, by their index; empty for what is none."""

    @abstractmethod
    def text_fields(self, answer: Json) -> list[AnswerField]:
        """Return the texts of `answer` that say something, in the order in which a model writes them."""

    @abstractmethod
    def is_finished(self, answer: Json) -> bool:
        """Return whether `answer` has its finish reason."""

    @abstractmethod
    def drop_tokens(self, answer: Json) -> None:
        """Take tokens and log-probabilities out of `answer`: they tell the text as it was."""

    @abstractmethod
    def clear_finish_reason(self, answer: Json) -> None:
        """Take the finish reason out of `answer`, which goes on, or was cut."""

    @abstractmethod
    def mark_continuation(self, answer: Json) -> None:
        """Take out of `answer`, the rest of a divided event, what was told with the first part."""

    @abstractmethod
    def mark_filtered(self, answer: Json) -> None:
        """End `answer`, a whole one, here as filtered."""

    @abstractmethod
    def closing_event(self, head: Json, index: int, text: str) -> Json:
        """Return the event that ends an answer. `head`: an event of its stream; `text`: its text so far."""


class OpenAIAnswerForm(AnswerForm):
    """Chat completions and completions."""

    place = "choices"

    def list_answers(self, data: Any) -> list[tuple[int, Json]]:
        choices = data.get("choices") if isinstance(data, dict) else None
        if not isinstance(choices, list):
            return []
        return [(_index(each, at), each) for at, each in enumerate(choices) if isinstance(each, dict)]

    def text_fields(self, answer: Json) -> list[AnswerField]:
        return list(_openai_fields(answer))

    def is_finished(self, answer: Json) -> bool:
        return answer.get("finish_reason") is not None

    def drop_tokens(self, answer: Json) -> None:
        answer.pop("token_ids", None)
        if "logprobs" in answer:
            answer["logprobs"] = None

    def clear_finish_reason(self, answer: Json) -> None:
        if "finish_reason" in answer:
            answer["finish_reason"] = None
        answer.pop("stop_reason", None)

    def mark_continuation(self, answer: Json) -> None:
        for call in _calls(_message(answer)):
            for name in ("id", "type"):
                call.pop(name, None)
            for name in ("function", "custom"):
                if isinstance(call.get(name), dict):
                    call[name].pop("name", None)

    def mark_filtered(self, answer: Json) -> None:
        _message(answer).pop("tool_calls", None)
        _message(answer).pop("function_call", None)
        answer.pop("stop_reason", None)
        answer["finish_reason"] = FILTERED

    def closing_event(self, head: Json, index: int, text: str) -> Json:
        is_chat = str(head.get("object", "")).startswith("chat")
        choice: Json = {"index": index, "delta": {}} if is_chat else {"index": index, "text": ""}
        choice |= {"logprobs": None, "finish_reason": FILTERED}
        return {name: head[name] for name in _HEAD if name in head} | {"choices": [choice]}


class GenerateAnswerForm(AnswerForm):
    """SGLang's `/generate`."""

    place = "answers"

    def list_answers(self, data: Any) -> list[tuple[int, Json]]:
        found = data if isinstance(data, list) else [data]
        return [
            (_index(each, at), each)
            for at, each in enumerate(found)
            if isinstance(each, dict) and isinstance(each.get("meta_info"), dict)
        ]

    def text_fields(self, answer: Json) -> list[AnswerField]:
        return list(_text_in(answer, "text", "text"))

    def is_finished(self, answer: Json) -> bool:
        return answer["meta_info"].get("finish_reason") is not None

    def drop_tokens(self, answer: Json) -> None:
        answer.pop("output_ids", None)
        meta = answer["meta_info"]
        for name in [name for name in meta if name.startswith("output_")]:
            del meta[name]

    def clear_finish_reason(self, answer: Json) -> None:
        answer["meta_info"]["finish_reason"] = None

    def mark_continuation(self, answer: Json) -> None:
        pass  # an event carries no more than its text

    def mark_filtered(self, answer: Json) -> None:
        answer["meta_info"]["finish_reason"] = {"type": FILTERED}

    def closing_event(self, head: Json, index: int, text: str) -> Json:
        meta = dict(head["meta_info"])
        answer = head | {"text": text, "meta_info": meta}
        self.drop_tokens(answer)
        meta["finish_reason"] = {"type": FILTERED}
        return answer | ({"index": index} if "index" in head else {})


def _index(answer: Json, at: int) -> int:
    index = answer.get("index", at)
    return index if type(index) is int else at


def _message(choice: Json) -> Json:
    """Return a choice's message or delta; a completion's choice is one itself."""
    for name in ("message", "delta"):
        if isinstance(choice.get(name), dict):
            message: Json = choice[name]
            return message
    return choice


def _openai_fields(choice: Json) -> Iterator[AnswerField]:
    yield from _text_in(choice, "text", "text")
    message = _message(choice)
    for name in _TEXTS:
        content = message.get(name)
        if isinstance(content, list):
            for at, part in enumerate(content):
                yield from _text_in(part, f"{name}[{at}]", "text")
        elif content:
            yield from _text_in(message, name, name)
    yield from _text_in(message.get("audio"), "audio.transcript", "transcript")
    yield from _text_in(message.get("function_call"), "function_call.arguments", "arguments", in_json=True)
    for at, call in enumerate(_calls(message)):
        place = f"tool_calls[{_index(call, at)}]"
        yield from _text_in(call.get("function"), f"{place}.arguments", "arguments", in_json=True)
        yield from _text_in(call.get("custom"), f"{place}.input", "input")


def _text_in(holder: Any, name: str, key: str, *, in_json: bool = False) -> Iterator[AnswerField]:
    """Yield the text of `holder` at `key`, if it is an object that has one there."""
    if not isinstance(holder, dict):
        return
    text = holder.get(key)
    if in_json and isinstance(text, dict | list):  # some workers write the arguments themselves
        text = holder[key] = json.dumps(text, ensure_ascii=False)
    if isinstance(text, str) and text:
        yield AnswerField(name, holder, key, in_json)


def _calls(message: Json) -> list[Json]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


OPENAI = OpenAIAnswerForm()
FORMS: dict[ReplyForm, AnswerForm] = {
    ReplyForm.CHAT: OPENAI,
    ReplyForm.COMPLETION: OPENAI,
    ReplyForm.GENERATE: GenerateAnswerForm(),
}
