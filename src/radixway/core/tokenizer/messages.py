"""Chat messages as clients send them, checked and in the form that chat templates read.

From a chat request's fields to the prompt's text, for engines and routers that must agree with them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from radixway.core.chat_images import find_image_url
from radixway.core.tokenizer.chat_template import REASONING_FIELDS, Message, TemplateError
from radixway.core.tokenizer.tokenizer import Tokenizer

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_CUSTOM_ROLE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")


def to_template_messages(
    messages: Sequence[dict[str, Any]],
    *,
    knows_developer: bool,
    takes_images: bool = False,
    allows_custom_roles: bool = False,
) -> list[Message]:
    """The messages as a template takes them. Raises TemplateError naming the message and field at fault.

    Content parts are text, and images where it `takes_images`; arguments of tool calls become objects;
    `developer` is written as `system` for a template that does not know it. With `allows_custom_roles` a
    role may have any name, as in vLLM: what becomes of its messages is for the template to say.
    """
    if not messages:
        raise _field_error("messages", "at least one message is needed", code="empty_messages")
    checked = []
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        role = message.get("role")
        is_custom = allows_custom_roles and isinstance(role, str) and _CUSTOM_ROLE.fullmatch(role)
        if role not in ROLES and not is_custom:
            raise _field_error(
                f"{place}.role", f"must be one of {', '.join(ROLES)}, not {_shorten_value(role)}"
            )
        message = {**message, "role": "system" if role == "developer" and not knows_developer else role}
        message["content"] = _convert_content(message.get("content"), f"{place}.content", takes_images)
        if calls := message.get("tool_calls"):
            message["tool_calls"] = _convert_tool_calls(calls, f"{place}.tool_calls")
        elif message["content"] is None and not (role == "assistant" and message.get("function_call")):
            raise _field_error(f"{place}.content", "is missing", code="missing_field")
        checked.append(message)
    return checked


def _convert_content(content: Any, place: str, takes_images: bool) -> str | list[dict[str, Any]] | None:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _field_error(place, f"must be a string or a list of parts, not {_shorten_value(content)}")
    parts = []
    for index, part in enumerate(content):
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        if not isinstance(part, dict):
            raise _field_error(f"{place}[{index}]", f"must be an object, not {_shorten_value(part)}")
        kind = part.get("type", "text")
        if kind == "image_url" and takes_images:
            if find_image_url(part) is None:
                raise _field_error(
                    f"{place}[{index}].image_url.url", "must be an http(s): or data:image/ URL"
                )
            parts.append({"type": "image"})
            continue
        if kind not in _TEXT_PARTS:
            why = f"{_shorten_value(kind)} is not supported: this model reads text only"
            raise _field_error(f"{place}[{index}].type", why, code="unsupported_content")
        text = part.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            raise _field_error(f"{place}[{index}].text", "must be a string")
        parts.append({"type": "text", "text": text})
    return parts


def _convert_tool_calls(calls: Any, place: str) -> list[dict[str, Any]]:
    if not isinstance(calls, list):
        raise _field_error(place, "must be a list")
    checked = []
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise _field_error(f"{place}[{index}].function", "must be an object with a name and arguments")
        arguments, where = function.get("arguments"), f"{place}[{index}].function.arguments"
        if isinstance(arguments, str):
            arguments = _parse_arguments(arguments, where)
        checked.append({**call, "function": {**function, "arguments": _require_object(arguments, where)}})
    return checked


def _parse_arguments(text: str, place: str) -> Any:
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise _field_error(place, "must be a JSON object") from None


def _require_object(value: Any, place: str) -> dict[str, Any]:
    """Return an object; null, which some agents write, is an empty one."""
    if not isinstance(value, dict | None):
        raise _field_error(place, "must be a JSON object")
    return value or {}


def _field_error(param: str, why: str, *, code: str = "invalid_value") -> TemplateError:
    return TemplateError(f"{param}: {why}", param=param, code=code)


def _shorten_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def render_chat(
    tokenizer: Tokenizer,
    messages: Sequence[dict[str, Any]],
    *,
    tools: Sequence[dict[str, Any]] | None = None,
    tool_choice: Any = None,
    add_generation_prompt: bool | None = None,
    continue_final_message: bool | None = None,
    arguments: Mapping[str, Any] | None = None,
    takes_images: bool = False,
) -> str:
    """Return the prompt of a chat request, to be encoded without special tokens. Raises TemplateError.

    `takes_images`: messages may show images, of which the prompt has the template's placeholders.
    """
    continues = bool(continue_final_message)
    return tokenizer.render(
        to_template_messages(
            messages,
            knows_developer=has_developer_role(tokenizer),
            takes_images=takes_images and has_image_parts(tokenizer),
            allows_custom_roles=True,
        ),
        tools=None if tool_choice == "none" else tools,
        add_generation_prompt=not continues if add_generation_prompt is None else add_generation_prompt,
        continue_final_message=continues,
        arguments=arguments,
    )


def has_developer_role(tokenizer: Tokenizer) -> bool:
    """Return whether the chat template of `tokenizer` has a `developer` role of its own."""
    template = tokenizer.chat_templates.get("default")
    return template is not None and "developer" in template.source


def has_image_parts(tokenizer: Tokenizer) -> bool:
    """Return whether the chat template of `tokenizer` shows images among the parts of a content."""
    template = tokenizer.chat_templates.get("default")
    return template is not None and template.reads_content_parts and "image" in template.source


_END_OF_THINKING = "</think>"


def count_common_messages(known: Sequence[Message], sent: Sequence[Message]) -> int:
    """Return the number of messages that both conversations begin with, compared by `is_same_message`."""
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
    """Return the text if there is only text, else the parts in one spelling."""
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
    """Return arguments in one spelling, from JSON text or an object; none are an empty object."""
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
    """Parse `2.0` as 2, as JavaScript's JSON means it."""
    number = float(text)
    return int(number) if number.is_integer() else number
