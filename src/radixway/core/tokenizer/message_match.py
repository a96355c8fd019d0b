"""Does a client that sends its conversation again still mean the messages we know?

Between two calls agents drop the reasoning, write a tool call's arguments anew, turn null content into an
empty string or a string into a list of parts. None of that is another conversation; anything else is.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from radixway.core.tokenizer.chat_template import REASONING_FIELDS, Message

_END_OF_THINKING = "</think>"


def count_common_messages(known: Sequence[Message], sent: Sequence[Message]) -> int:
    """Return the number of messages that both conversations begin with, compared by `same_message`."""
    pairs = enumerate(zip(known, sent, strict=False))
    return next(
        (at for at, (one, other) in pairs if not is_same_message(one, other)), min(len(known), len(sent))
    )


def is_same_message(known: Message, sent: Message) -> bool:
    """Is `sent` the message `known`, as far as a model's chat template could tell?

    Compared are role, content, tool calls with their arguments as JSON values, and, where both give them,
    the ids and names of calls and authors. Reasoning counts only when `sent` has some. An answer's content
    may come back without white space around it and without the thinking that it began with. Fields of
    other names do not count.
    """
    return (
        known.get("role") == sent.get("role")
        and _same_content(known, sent)
        and _same_calls(_tool_calls(known), _tool_calls(sent))
        and _fields_agree(known, sent, "tool_call_id")
        and _fields_agree(known, sent, "name")
        and _reasoning_text(sent) in ("", _reasoning_text(known))
    )


def _same_content(known: Message, sent: Message) -> bool:
    one, other = _normalized_content(known.get("content")), _normalized_content(sent.get("content"))
    if one == other:
        return True
    if known.get("role") != "assistant" or not isinstance(one, str) or not isinstance(other, str):
        return False
    return other.strip() in (one.strip(), one.rpartition(_END_OF_THINKING)[2].strip())


def _normalized_content(content: Any) -> str | tuple[str, ...]:
    """The text, when there is nothing but text; else the parts, each in one spelling."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [_text_of(part) for part in parts]
    if None not in texts:
        return "".join(text for text in texts if text is not None)
    return tuple(
        _canonical_json(part) if text is None else text for part, text in zip(parts, texts, strict=True)
    )


def _text_of(part: Any) -> str | None:
    """A part's text, or None for a part of another kind."""
    text = part.get("text", part.get("refusal")) if isinstance(part, Mapping) else part
    return text if isinstance(text, str) else None


def _tool_calls(message: Message) -> list[Any]:
    calls = message.get("tool_calls") or []
    legacy = message.get("function_call")
    return [*(calls if isinstance(calls, list) else [calls]), *([{"function": legacy}] if legacy else [])]


def _same_calls(known: list[Any], sent: list[Any]) -> bool:
    return len(known) == len(sent) and all(map(_same_call, known, sent))


def _same_call(known: Any, sent: Any) -> bool:
    if not isinstance(known, Mapping) or not isinstance(sent, Mapping):
        return bool(known == sent)
    one, other = known.get("function"), sent.get("function")
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return _canonical_json(known) == _canonical_json(sent)
    same_arguments = _normalized_arguments(one.get("arguments")) == _normalized_arguments(
        other.get("arguments")
    )
    return one.get("name") == other.get("name") and same_arguments and _fields_agree(known, sent, "id")


def _fields_agree(known: Mapping[str, Any], sent: Mapping[str, Any], field: str) -> bool:
    one, other = known.get(field), sent.get(field)
    return one is None or other is None or bool(one == other)


def _reasoning_text(message: Message) -> str:
    value = next((value for name in REASONING_FIELDS if (value := message.get(name))), "")
    return value.strip() if isinstance(value, str) else _canonical_json(value)


def _normalized_arguments(arguments: Any) -> str:
    """Arguments in one spelling, whether they came as JSON text or as an object; none are an empty object."""
    if not isinstance(arguments, str):
        return _canonical_json(arguments or {})
    try:
        return _sorted_json(json.loads(arguments or "{}", parse_float=_parse_float) or {})
    except (ValueError, RecursionError):
        return arguments


def _canonical_json(value: Any) -> str:
    try:
        return _sorted_json(json.loads(json.dumps(value), parse_float=_parse_float))
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _sorted_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _parse_float(text: str) -> float | int:
    """`2.0` is the number 2, as whoever writes JSON from JavaScript has it."""
    number = float(text)
    return int(number) if number.is_integer() else number
