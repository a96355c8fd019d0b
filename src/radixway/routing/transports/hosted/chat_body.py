"""Readers of a chat completion's body, for providers with another API."""

import base64
import binascii
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from radixway.core.chat_images import find_image_url
from radixway.core.pipeline import Request
from radixway.core.protocols.request import field_error, shorten_value

_DATA_URL = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+);base64,", re.IGNORECASE)
_NO_CALL_ID = re.compile(r"[^a-zA-Z0-9_-]")
"""What ids of calls have at some engines (`functions.weather:0`), and at no provider."""
_REASONING_TOKENS = {"minimal": 1024, "low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192}
"""Tokens of thought by `reasoning_effort`, for APIs that count them."""


@dataclass(slots=True, frozen=True)
class TextContent:
    """A text of a message."""

    text: str
    cache_control: Any = None
    """Anthropic's mark that a prefix ends here, if the client gave one."""


@dataclass(slots=True, frozen=True)
class FileContent:
    """An image or a document of a message: its bytes, or where it is."""

    media_type: str
    data: str | None
    """Base64; None where it has a `url`."""
    url: str | None
    place: str
    name: str = ""

    @property
    def is_image(self) -> bool:
        """True for an image."""
        return self.media_type.startswith("image/")


Content = TextContent | FileContent


@dataclass(slots=True, frozen=True)
class ToolCall:
    """A call that the model made in an earlier answer."""

    id: str
    name: str
    arguments: dict[str, Any]
    extra: Mapping[str, Any]
    """`extra_content`, which Google's API wants back."""


@dataclass(slots=True, frozen=True)
class ToolFunction:
    """A function that the model may call."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool | None


class ChatBody:
    """The fields of one body, checked as they are read. Reading raises BadBodyError naming the field."""

    def __init__(self, request: Request) -> None:
        self.fields = request.body
        for name in ("functions", "function_call", "audio", "prediction", "web_search_options"):
            if self.fields.get(name):
                raise field_error(name, "is not supported by this hosted model", code="unsupported")

    def messages(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield role, place and message of each message."""
        given = self.fields.get("messages")
        if not isinstance(given, list) or not given:
            raise field_error("messages", "must be a list of messages")
        for index, message in enumerate(given):
            place = f"messages[{index}]"
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                raise field_error(f"{place}.role", "must be a string")
            yield message["role"], place, message

    def number(self, name: str) -> float | None:
        """Return the number `name`, None where it is not given."""
        value = self.fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise field_error(name, "must be a number")
        return value

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of the answer; None: the client sets no limit."""
        value = self.number("max_completion_tokens")
        value = self.number("max_tokens") if value is None else value
        return None if value is None else int(value)

    @property
    def stops(self) -> list[str]:
        """Strings that end the answer. Those of white space alone are left out: providers refuse them."""
        given = self.fields.get("stop") or []
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise field_error("stop", "must be a string or a list of strings")
        return [text for text in texts if text.strip()]

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens of thought by `reasoning_effort`: 0 for `none`; None where it is not given."""
        effort = self.fields.get("reasoning_effort")
        if effort is None:
            return None
        return 0 if effort == "none" else _REASONING_TOKENS.get(str(effort), 2048)

    @property
    def user(self) -> str | None:
        """The client's name for its user."""
        user = self.fields.get("user")
        return user if isinstance(user, str) and user else None

    def tools(self) -> list[ToolFunction]:
        """Return the functions that may be called."""
        found = []
        for index, tool in enumerate(_read_list(self.fields, "tools", "tools")):
            function = tool.get("function") if isinstance(tool, dict) else None
            place = f"tools[{index}]"
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                raise field_error(place, 'must be {"type": "function", "function": {"name": …}}')
            schema = function.get("parameters")
            if not isinstance(schema, dict | None):
                raise field_error(f"{place}.function.parameters", "must be a JSON schema")
            schema = schema or {"type": "object", "properties": {}}
            description = function.get("description")
            strict = function.get("strict")
            found.append(
                ToolFunction(
                    function["name"],
                    description if isinstance(description, str) else "",
                    schema,
                    strict if isinstance(strict, bool) else None,
                )
            )
        return found

    def tool_choice(self) -> str | dict[str, str] | None:
        """Return `auto`, `none`, `required` or `{"name": …}`; None where it is not given."""
        match self.fields.get("tool_choice"):
            case None:
                return None
            case "auto" | "none" | "required" as choice:
                return str(choice)
            case {"type": "function", "function": {"name": str(name)}}:
                return {"name": name}
        raise field_error("tool_choice", "must be auto, none, required or name a function")

    @property
    def allows_parallel_calls(self) -> bool:
        """False where the answer may call one function at most."""
        return self.fields.get("parallel_tool_calls") is not False

    def answer_schema(self) -> tuple[bool, dict[str, Any] | None]:
        """Return whether the answer is to be JSON, and the schema that it follows, if it follows one."""
        match self.fields.get("response_format"):
            case None | {"type": "text"}:
                return False, None
            case {"type": "json_object"}:
                return True, None
            case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
                return True, schema
        raise field_error("response_format", "must be text, json_object or json_schema with its schema")

    def require_single_answer(self) -> None:
        """Raise BadBodyError where several answers or log-probabilities are asked for."""
        if self.fields.get("n") not in (None, 1):
            raise field_error("n", "must be 1 for this hosted model", code="unsupported")
        if self.fields.get("logprobs"):
            raise field_error("logprobs", "are not told by this hosted model", code="unsupported")


class MessageForm(ABC):
    """How a provider writes messages; converting raises BadBodyError naming the field."""

    answerer: ClassVar[str] = "assistant"
    """Its role of who answers."""
    content: ClassVar[str] = "content"
    """The field with the parts of a message."""

    def convert_messages(self, chat: ChatBody) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the parts of system messages, and the turns: those of one role that follow each other are
        one."""
        system: list[dict[str, Any]] = []
        turns: list[dict[str, Any]] = []
        for role, place, message in chat.messages():
            match role:
                case "system" | "developer":
                    texts = _read_system(message.get("content"), place)
                    system += [self.convert_part(text) for text in texts]
                    continue
                case "user":
                    name, parts = "user", self.convert_content(message, place)
                case "tool" | "function":
                    name, parts = "user", [self.convert_result(message, place)]
                case "assistant":
                    name, parts = self.answerer, self.convert_answer(message, place)
                case _:
                    why = f"must be system, developer, user, assistant or tool, not {shorten_value(role)}"
                    raise field_error(f"{place}.role", why)
            if turns and turns[-1]["role"] == name:
                turns[-1][self.content] += parts
            elif parts:
                turns.append({"role": name, self.content: parts})
        return system, turns

    def convert_content(self, message: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
        """Return the parts of a `message`."""
        return [self.convert_part(part) for part in read_content(message.get("content"), place)]

    @abstractmethod
    def convert_part(self, part: Content) -> dict[str, Any]:
        """Return a text, an image or a document."""

    @abstractmethod
    def convert_result(self, message: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return the part that a tool's `message` comes to."""

    @abstractmethod
    def convert_answer(self, message: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
        """Return the parts of an assistant's earlier `message`."""


def read_content(content: Any, place: str) -> list[Content]:
    """Return the parts of a message's `content`. Raises BadBodyError naming the one at fault."""
    if content is None:
        return []
    if isinstance(content, str):
        return [TextContent(content)] if content else []
    if not isinstance(content, list):
        raise field_error(f"{place}.content", f"must be a string or a list, not {shorten_value(content)}")
    return [_read_part(part, f"{place}.content[{index}]") for index, part in enumerate(content)]


def _read_system(content: Any, place: str) -> list[TextContent]:
    """Return the texts of a system message's `content`. Raises BadBodyError where it has anything else."""
    texts = []
    for part in read_content(content, place):
        if isinstance(part, FileContent):
            raise field_error(part.place, "must be text in a system message", code="unsupported_content")
        texts.append(part)
    return texts


def read_text(content: Any, place: str) -> str:
    """Return the text of a message's `content`. Raises BadBodyError where it has anything else."""
    parts = read_content(content, place)
    if any(isinstance(part, FileContent) for part in parts):
        raise field_error(f"{place}.content", "must be text alone here", code="unsupported_content")
    return "".join(part.text for part in parts if isinstance(part, TextContent))


def _read_part(part: Any, place: str) -> Content:
    match part:
        case {"type": "text" | "input_text" | "refusal", **rest}:
            text = rest.get("text", rest.get("refusal"))
            if not isinstance(text, str):
                raise field_error(f"{place}.text", "must be a string")
            return TextContent(text, rest.get("cache_control"))
        case {"type": "image_url"}:
            url = find_image_url(part)
            if url is None:
                raise field_error(f"{place}.image_url", "must be an http(s): or data:image/ URL")
            if not url.startswith("data:"):
                return FileContent("image/*", None, url, place)
            return FileContent(*_split_data_url(url, f"{place}.image_url.url"), None, place)
        case {"type": "file", "file": {"file_data": str(url), **rest}}:
            name = rest.get("filename")
            found = _split_data_url(url, f"{place}.file.file_data")
            return FileContent(*found, None, place, name if isinstance(name, str) else "")
    kind = part.get("type") if isinstance(part, dict) else part
    raise field_error(f"{place}.type", f"{shorten_value(kind)} is not supported", code="unsupported_content")


def _split_data_url(url: str, place: str) -> tuple[str, str]:
    """Return media type and base64 of a data: URL."""
    found = _DATA_URL.match(url)
    if found is None:
        raise field_error(place, "must be a data: URL in base64", code="unsupported_content")
    data = url[found.end() :]
    try:
        base64.b64decode(data[:64], validate=len(data) <= 64)
    except (binascii.Error, ValueError):
        raise field_error(place, "is not base64") from None
    return found[1].lower().replace("image/jpg", "image/jpeg"), data


def read_tool_calls(message: Mapping[str, Any], place: str) -> list[ToolCall]:
    """Return the calls in an assistant's `message`. Raises BadBodyError."""
    found = []
    for index, call in enumerate(_read_list(message, "tool_calls", f"{place}.tool_calls")):
        match call:
            case {"id": str(call_id), "function": {"name": str(name), **rest}}:
                where = f"{place}.tool_calls[{index}].function.arguments"
                extra = call.get("extra_content")
                arguments = _read_arguments(rest.get("arguments"), where)
                extra = extra if isinstance(extra, dict) else {}
                found.append(ToolCall(_NO_CALL_ID.sub("_", call_id)[-64:], name, arguments, extra))
            case _:
                raise field_error(f"{place}.tool_calls[{index}]", "needs an id and a function with its name")
    return found


def _read_list(fields: Mapping[str, Any], name: str, place: str) -> list[Any]:
    given = fields.get(name) or []
    if not isinstance(given, list):
        raise field_error(place, "must be a list")
    return given


def _read_arguments(text: Any, place: str) -> dict[str, Any]:
    if not isinstance(text, str | None):
        raise field_error(place, "must be a string of JSON")
    if not text or not text.strip():
        return {}
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise field_error(place, "must be a JSON object")
    return arguments


def read_call_id(message: Mapping[str, Any], place: str) -> str:
    """Return the call that a tool's `message` answers. Raises BadBodyError."""
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str):
        raise field_error(f"{place}.tool_call_id", "must be a string")
    return _NO_CALL_ID.sub("_", call_id)[-64:]


def write_arguments(given: Any) -> str:
    """Return the arguments of a call as JSON text."""
    return json.dumps(given if given is not None else {}, ensure_ascii=False)
