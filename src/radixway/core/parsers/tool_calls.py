"""Tool calls behind a marker: what Qwen (hermes), Llama 3 and Mistral write.

Each parser is a small machine: a state reads what it is given and returns what is left for the next one.
"""

import ast
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from radixway.core.parsers.parts import ArgumentsPart, MarkerScanner, Part, TextPart, ToolCallStart

ARGUMENT_KEYS = ("arguments", "parameters")

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)+")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')


class JsonValueScanner:
    """Finds the end of a JSON object or array that comes in pieces."""

    def __init__(self) -> None:
        self.depth = 0
        self._in_string = False
        self._escaped = False

    def find_end(self, text: str, start: int = 0, *, depth: int = 0) -> int | None:
        """Return the index in `text`, read from `start`, where the nesting first comes back to `depth`."""
        for at in range(start, len(text)):
            character = text[at]
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = character == "\\"
                self._in_string = character != '"'
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self.depth += 1
            elif character in "}]":
                self.depth -= 1
                if self.depth <= depth:
                    return at + 1
        return None


class CallObjectReader:
    """Reads `{"name": …, "arguments": {…}}` (or `parameters`), keys in any order.

    With the name first, the arguments are given out as they come, as they are written; else at the end.
    """

    def __init__(self, *, needs_arguments: bool = False) -> None:
        self.failed: str | None = None
        """The text, once it has turned out not to be a call."""
        self._needs_arguments = needs_arguments
        self._value = JsonValueScanner()
        self._text = ""
        self._scanned = 0
        self._begun = self._in_arguments = False

    def read_text(self, text: str) -> tuple[list[Part], str | None]:
        """Return the parts of the call that are certain, and the text after its end; None before it."""
        self._text += text
        parts: list[Part] = []
        if not self._begun:
            start = len(self._text) - len(self._text.lstrip())
            if start < len(self._text) and self._text[start] != "{":
                return self._reject_text(start)
            self._start_call(parts)
        if self._in_arguments:
            self._read_arguments(parts)
        if self._begun and self._in_arguments:
            return parts, None
        end = self._value.find_end(self._text, self._scanned)
        if end is None:
            self._scanned = len(self._text)
            return parts, None
        return (parts, self._text[end:]) if self._begun else self._read_complete_object(end)

    def end_text(self) -> None:
        """End the text: what had not begun as a call is none."""
        if not self._begun:
            self._reject_text(len(self._text))

    def _start_call(self, parts: list[Part]) -> None:
        head = _HEAD.match(self._text)
        if head is None or (name := _decode_string(head[1])) is None:
            return
        parts.append(ToolCallStart(name))
        self._begun = self._in_arguments = True
        self._value = JsonValueScanner()
        self._value.depth = 1  # inside the call, before its arguments
        self._text, self._scanned = self._text[head.end() :], 0

    def _read_arguments(self, parts: list[Part]) -> None:
        end = self._value.find_end(self._text, depth=1)
        parts.append(ArgumentsPart(self._text[:end]))
        self._text = "" if end is None else self._text[end:]
        self._in_arguments = end is None

    def _read_complete_object(self, end: int) -> tuple[list[Part], str]:
        call = _decode_object(self._text[:end])
        name = call.get("name") if call else None
        key = next((key for key in ARGUMENT_KEYS if call and key in call), None)
        if not call or not isinstance(name, str) or not name or (self._needs_arguments and key is None):
            return self._reject_text(end)
        arguments = call[key] if key else {}
        self._begun = True
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return [ToolCallStart(name), ArgumentsPart(written)], self._text[end:]

    def _reject_text(self, end: int) -> tuple[list[Part], str]:
        self.failed = self._text[:end]
        return [], self._text[end:]


def _decode_string(text: str) -> str | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _decode_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


State: TypeAlias = Callable[[str], str]
"""Reads a text; returns the part of it that is the next state's (empty: all was read)."""


class MarkedCallParser:
    """Prose in which a marker announces calls. A subclass says what comes `_after_marker`."""

    def __init__(self, markers: Sequence[str], *, markers_later: Sequence[str] = ()) -> None:
        self._prose = MarkerScanner(markers)
        self._prose_later = MarkerScanner([*markers, *markers_later])
        self._closing = frozenset(markers_later)
        self._state: State = self._read_prose
        self._parts: list[Part] = []
        self._raw = ""
        """Text since the prose ended that may still become a call."""
        self._call = CallObjectReader()
        self._called = False

    def feed_text(self, text: str) -> list[Part]:
        """Read `text` and return the parts that are certain now."""
        while text:
            text = self._state(text)
        parts, self._parts = self._parts, []
        return parts

    def flush_parts(self) -> list[Part]:
        """Return what was still held back."""
        if self._state == self._read_call:
            self._call.end_text()
            self._raw += self._call.failed or ""
        self._add_text(self._raw + ("" if self._called else self._prose.take_held_back()))
        if self._called:
            self._add_text(self._prose_later.take_held_back().rstrip())
        parts, self._parts = self._parts, []
        return parts

    def _add_text(self, text: str) -> None:
        if text:
            self._parts.append(TextPart(text))

    def _read_prose(self, text: str) -> str:
        prose = self._prose_later if self._called else self._prose
        before, marker, rest = prose.scan_text(text)
        self._add_text(before)
        if marker is not None and marker not in self._closing:
            self._raw = prose.space + marker
            self._state = self._after_marker
        return rest

    def _after_marker(self, text: str) -> str:
        """Parse one call after its marker."""
        self._start_call()
        return text

    def _start_call(self, *, needs_arguments: bool = False) -> None:
        self._call = CallObjectReader(needs_arguments=needs_arguments)
        self._state = self._read_call

    def _read_call(self, text: str) -> str:
        parts, rest = self._call.read_text(text)
        self._parts += parts
        if parts:
            self._called, self._raw = True, ""
        if self._call.failed is not None:
            self._treat_as_text(self._call.failed)
        elif rest is not None:
            self._state = self._after_call
        return rest or ""

    def _after_call(self, text: str) -> str:
        self._state = self._read_prose
        return text

    def _treat_as_text(self, read: str) -> None:
        """Turn what was read back to text."""
        self._add_text(self._raw + read)
        self._raw = ""
        self._state = self._read_prose


class HermesCallParser(MarkedCallParser):
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`, any number of them."""

    def __init__(self) -> None:
        super().__init__(["<tool_call>"], markers_later=["</tool_call>"])


class Llama3CallParser(MarkedCallParser):
    """`{"name": …, "parameters": {…}}`, with or without `<|python_tag|>` before; `;` between several."""

    def __init__(self) -> None:
        super().__init__(["<|python_tag|>"])
        self._state = self._before_anything

    def _before_anything(self, text: str) -> str:
        return self._bare_object(text, " \t\r\n")

    def _after_marker(self, text: str) -> str:
        self._start_call(needs_arguments=True)
        return text

    def _after_call(self, text: str) -> str:
        self._state = self._between_calls
        return self._between_calls(text) if text else ""

    def _between_calls(self, text: str) -> str:
        return self._bare_object(text, " \t\r\n;")

    def _bare_object(self, text: str, skipped: str) -> str:
        """Parse a call without a marker, or return text."""
        text = self._raw + text
        start = len(text) - len(text.lstrip(skipped))
        self._raw = text[:start]
        if start < len(text) and text[start] == "{":
            self._start_call(needs_arguments=True)
            return text[start:]
        if start < len(text):
            self._raw = ""
            self._state = self._read_prose
            return text
        return ""

    def flush_parts(self) -> list[Part]:
        """Return what was still held back; no separator after the last call."""
        if self._state == self._between_calls:
            self._raw = ""
        return super().flush_parts()


class MistralCallParser(MarkedCallParser):
    """`[TOOL_CALLS]` and a list of objects, or the newer `[TOOL_CALLS]name[ARGS]{…}`, any number of them."""

    _NAME = re.compile(r"\s*([\w.\-]+)\s*(?:\[CALL_ID\][\w\-]*\s*)?(?:\[ARGS\])?\s*")

    def __init__(self) -> None:
        super().__init__(["[TOOL_CALLS]"])
        self._head = ""
        self._in_list = False
        self._value = JsonValueScanner()

    def _after_marker(self, text: str) -> str:
        self._in_list = False
        self._state = self._read_head
        return text

    def _read_head(self, text: str) -> str:
        """Read a list, an object, or a name before an object."""
        text, self._head = self._head + text, ""
        at = next((i for i, character in enumerate(text) if not character.isspace()), None)
        if at is not None and text[at] == "[":
            self._raw += text[: at + 1]
            self._in_list = True
            self._start_call()
            return text[at + 1 :]
        brace = text.find("{")
        if brace < 0:
            self._head = text
            return ""
        if brace == at:
            self._start_call()
            return text
        name = self._NAME.fullmatch(text[:brace])
        if name is None:
            self._treat_as_text(text[:brace])
        else:
            self._parts.append(ToolCallStart(name[1]))
            self._called, self._raw, self._value = True, "", JsonValueScanner()
            self._state = self._read_arguments
        return text[brace:]

    def _read_arguments(self, text: str) -> str:
        end = self._value.find_end(text)
        self._parts.append(ArgumentsPart(text[:end]))
        if end is None:
            return ""
        self._state = self._read_prose
        return text[end:]

    def _after_call(self, text: str) -> str:
        self._state = self._next_in_list if self._in_list else self._read_prose
        return text

    def _next_in_list(self, text: str) -> str:
        text = text.lstrip()
        if text[:1] == ",":
            self._start_call()
            return text[1:]
        if text:
            self._state = self._read_prose
        return text.removeprefix("]")

    def flush_parts(self) -> list[Part]:
        """Return what was still held back."""
        self._raw, self._head = self._raw + self._head, ""
        return super().flush_parts()


_BEGINNING = re.compile(r"\s*(\[\s*([A-Za-z_][\w.]*\s*(\(.*)?)?)?", re.DOTALL)
_MAX_CHARS = 65_536
_JSON_NAMES = {"true": True, "false": False, "null": None}


class PythonicCallParser:
    """An answer that is such a list and nothing else is calls, given out at its end; any other is text."""

    def __init__(self) -> None:
        self._pending = ""
        self._is_text = False

    def feed_text(self, text: str) -> list[Part]:
        """Read `text` and return the parts that are certain now."""
        if not self._is_text:
            text, self._pending = self._pending + text, ""
            self._is_text = _BEGINNING.fullmatch(text) is None
        if self._is_text:
            return [TextPart(text)] if text else []
        self._pending = text
        return []

    def flush_parts(self) -> list[Part]:
        """The calls, or the text that was none."""
        pending, self._pending = self._pending, ""
        if not pending:
            return []
        return _parse_calls(pending) or [TextPart(pending)]


def _parse_calls(text: str) -> list[Part]:
    """Return the calls that `text` lists, or none."""
    if len(text) > _MAX_CHARS:
        return []
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.List):
            return []
        return [part for call in tree.elts for part in _parse_call(call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _parse_call(node: ast.expr) -> list[Part]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError("not a call of a name")
    if node.args or any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("not a call by keywords")
    arguments = {keyword.arg: _literal_value(keyword.value) for keyword in node.keywords}
    return [ToolCallStart(ast.unparse(node.func)), ArgumentsPart(json.dumps(arguments, ensure_ascii=False))]


def _literal_value(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name) if name in _JSON_NAMES:
            return _JSON_NAMES[name]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_literal_value(element) for element in elements]
        case ast.Dict(keys=[*keys], values=values) if None not in keys:
            return {
                str(_literal_value(key)): _literal_value(v)
                for key, v in zip(keys, values, strict=True)
                if key
            }
        case _:
            value = ast.literal_eval(node)
            json.dumps(value)  # bytes, sets and complex numbers are no JSON
            return value
