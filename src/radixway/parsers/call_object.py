"""One tool call as a JSON object, read while it is being written."""

import json
import re
from typing import Any

from radixway.parsers.parts import Arguments, Call, Part

ARGUMENT_KEYS = ("arguments", "parameters")

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)+")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')


class JsonValue:
    """Finds the end of a JSON object or array that comes in pieces."""

    def __init__(self) -> None:
        self.depth = 0
        self._in_string = False
        self._escaped = False

    def end(self, text: str, start: int = 0, *, depth: int = 0) -> int | None:
        """Where in `text` (read from `start`) the nesting first comes back to `depth`: the index after it."""
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


class CallObject:
    """Reads `{"name": …, "arguments": {…}}` (or `parameters`), keys in any order.

    With the name first, the arguments are given out as they come, as they are written; else at the end.
    """

    def __init__(self, *, needs_arguments: bool = False) -> None:
        self.failed: str | None = None
        """What was read, once it has turned out not to be a call."""
        self._needs_arguments = needs_arguments
        self._value = JsonValue()
        self._text = ""
        self._scanned = 0
        self._begun = self._in_arguments = False

    def push(self, text: str) -> tuple[list[Part], str | None]:
        """What is certain of the call, and the text after its end (None: it has not come)."""
        self._text += text
        parts: list[Part] = []
        if not self._begun:
            start = len(self._text) - len(self._text.lstrip())
            if start < len(self._text) and self._text[start] != "{":
                return self._fail(start)
            self._begin(parts)
        if self._in_arguments:
            self._go_on(parts)
        if self._begun and self._in_arguments:
            return parts, None
        end = self._value.end(self._text, self._scanned)
        if end is None:
            self._scanned = len(self._text)
            return parts, None
        return (parts, self._text[end:]) if self._begun else self._whole(end)

    def finish(self) -> None:
        """No more text will come: what had not begun as a call is none."""
        if not self._begun:
            self._fail(len(self._text))

    def _begin(self, parts: list[Part]) -> None:
        head = _HEAD.match(self._text)
        if head is None or (name := _string(head[1])) is None:
            return
        parts.append(Call(name))
        self._begun = self._in_arguments = True
        self._value = JsonValue()
        self._value.depth = 1  # inside the call, before its arguments
        self._text, self._scanned = self._text[head.end() :], 0

    def _go_on(self, parts: list[Part]) -> None:
        end = self._value.end(self._text, depth=1)
        parts.append(Arguments(self._text[:end]))
        self._text = "" if end is None else self._text[end:]
        self._in_arguments = end is None

    def _whole(self, end: int) -> tuple[list[Part], str]:
        call = _object(self._text[:end])
        name = call.get("name") if call else None
        key = next((key for key in ARGUMENT_KEYS if call and key in call), None)
        if not call or not isinstance(name, str) or not name or (self._needs_arguments and key is None):
            return self._fail(end)
        arguments = call[key] if key else {}
        self._begun = True
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return [Call(name), Arguments(written)], self._text[end:]

    def _fail(self, end: int) -> tuple[list[Part], str]:
        self.failed = self._text[:end]
        return [], self._text[end:]


def _string(text: str) -> str | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
