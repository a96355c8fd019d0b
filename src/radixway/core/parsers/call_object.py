"""One tool call as a JSON object, read while it is being written."""

import json
import re
from typing import Any

from radixway.core.parsers.parts import ArgumentsPart, Part, ToolCallStart

ARGUMENT_KEYS = ("arguments", "parameters")

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)+")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')


class JsonValueScanner:
    """Finds the end of a JSON object or array that comes in pieces."""

    def __init__(self) -> None:
        self.depth = 0
        self._in_string = False
        self._escaped = False

    def find_end(self, text: str, start: int = 0, *, depth: int = 0) -> int | None:
        """Return the place in `text` (read from `start`) where the nesting first comes back to `depth`: the
        index after it.
        """
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
        """What was read, once it has turned out not to be a call."""
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
        """No more text will come: what had not begun as a call is none."""
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
