"""What a guard reads of a request: every text in it, who said it, and where it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Speaker = Literal["system", "user", "assistant", "tool", "document"]
"""Whose words they are. `tool`: results of calls; `document`: what was fetched or uploaded."""

Place = tuple[str | int, ...]
"""Keys and indices from the body down to the text: `("messages", 2, "content")`."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One text of a request."""

    text: str
    speaker: Speaker
    place: Place


@dataclass(slots=True)
class Texts:
    """What a body says."""

    passages: list[Passage] = field(default_factory=list)
    """In the order of the body."""
    unread: list[Place] = field(default_factory=list)
    """Where there is something that is not text: pictures, sounds, files, token ids."""


TOP: Mapping[str, Speaker] = {
    "system": "system",
    "instructions": "system",
    "tools": "system",
    "functions": "system",
    "response_format": "system",
    "documents": "document",
    "messages": "user",
    "prompt": "user",
    "text": "user",
    "input": "user",
    "suffix": "user",
    "prediction": "assistant",
    "chat_template": "system",
    "chat_template_kwargs": "system",
}
"""The fields of all protocols in which the model is told something, and who says it where nobody is named."""

EARLIER = "previous_response_id"
"""Where a Response goes on from another one: what was said before is known to its session alone."""

_IDS = frozenset({"input_ids"})
_OTHER_MEDIA = frozenset(
    {"image_url", "video_url", "audio_url", "input_audio", "image", "audio", "video", "file_data"}
)
_NO_TEXT = frozenset(
    {
        *("role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "item_id", "status", "signature"),
        *("cache_control", "media_type", "mime_type", "format", "detail", "file_id", "encrypted_content"),
        *("$schema", "$ref", "strict", "required", "url"),
    }
)
"""Fields that say nothing to a model, or nothing of their own."""
_ROLES: Mapping[str, Speaker] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TYPES: Mapping[str, Speaker] = {
    "function_call": "assistant",
    "function_call_output": "tool",
    "custom_tool_call_output": "tool",
    "tool_result": "tool",
    "tool_use": "assistant",
    "reasoning": "assistant",
    "document": "document",
    "search_result": "document",
    "file": "document",
    "input_file": "document",
}
"""Of items and parts of content, where their type says who speaks."""


def read_texts(body: Mapping[str, Any]) -> Texts:
    """Every text of a chat completion, a completion, `/generate`, Anthropic's Messages or a Response.

    Parts whose type nobody knows are read too. Without recursion, as clients choose how deep they nest.
    """
    texts = Texts()
    if body.get("previous_response_id"):
        texts.unread.append((EARLIER,))
    waiting: list[tuple[Any, Place, Speaker]] = [
        (value, (name,), TOP.get(name, "user"))
        for name, value in reversed(list(body.items()))
        if (name in TOP or name in _IDS) and value is not None
    ]
    while waiting:
        value, place, speaker = waiting.pop()
        if isinstance(value, str):
            _take(texts, value, place, speaker)
        elif isinstance(value, list):
            if _holds_ids(value, place):
                texts.unread.append(place)
            else:
                waiting += [(value[at], (*place, at), speaker) for at in range(len(value) - 1, -1, -1)]
        elif isinstance(value, dict):
            waiting += reversed(list(_fields(value, place, speaker, texts)))
    return texts


def in_words(place: Place) -> str:
    """`messages[2].content`. Keys that are not names are not repeated: they may be private themselves."""
    words = ""
    for part in place:
        if isinstance(part, int):
            words += f"[{part}]"
        else:
            name = part if _NAME.fullmatch(part) else "…"
            words += f".{name}" if words else name
    return words


_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,40}")


def _take(texts: Texts, text: str, place: Place, speaker: Speaker) -> None:
    if text.startswith("data:") and ";base64," in text[:200]:
        texts.unread.append(place)
    elif text.strip() and not (place[0] in ("tools", "functions") and _NAME.fullmatch(text)):
        texts.passages.append(Passage(legible(text), speaker, place))


def _fields(
    value: dict[str, Any], place: Place, speaker: Speaker, texts: Texts
) -> Iterator[tuple[Any, Place, Speaker]]:
    kind = value.get("type")
    speaker = _ROLES.get(str(value.get("role")), speaker)
    speaker = _TYPES.get(kind, speaker) if isinstance(kind, str) else speaker
    for name, each in value.items():
        at = (*place, name)
        if name in _OTHER_MEDIA or (name == "data" and kind == "base64"):
            texts.unread.append(at)
        elif name == "input" and kind == "tool_use" and isinstance(each, dict):
            yield json.dumps(each, ensure_ascii=False), at, speaker
        elif name not in _NO_TEXT or _says_something(each) or place[0] == "documents":
            yield each, at, speaker


def _says_something(value: Any) -> bool:
    """Of a field that usually does not: a parameter may be called `id`, and templates write roles out."""
    return isinstance(value, dict) or (isinstance(value, str) and len(value.split()) > 1)


def legible(text: str) -> str:
    """JSON in a text (arguments and results of calls) without the escapes that would hide what it says."""
    if "\\u" not in text:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else text


def _holds_ids(value: list[Any], place: Place) -> bool:
    return bool(value) and place[0] in ("input_ids", "prompt") and isinstance(value[0], int)
