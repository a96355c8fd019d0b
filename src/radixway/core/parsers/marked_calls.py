"""Tool calls behind a marker: what Qwen (hermes), Llama 3 and Mistral write.

Each parser is a small machine: a state reads what it is given and returns what is left for the next one.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from radixway.core.parsers.call_object import CallObjectReader, JsonValueScanner
from radixway.core.parsers.parts import ArgumentsPart, MarkerScanner, Part, TextPart, ToolCallStart

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
        """What was read since the prose ended and has not become a call: text, if it never does."""
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
        """One call as an object."""
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
        """What was announced is no call: then it is text."""
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
        """A call without a marker, if an object comes next; else text."""
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
        """A list, an object, or a name before an object."""
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
