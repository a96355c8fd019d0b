"""Tool calls as Python: `[get_weather(city="Paris"), get_time()]`, as Llama 3.2 and 4 are taught to."""

import ast
import json
import re
from typing import Any

from radixway.core.parsers.parts import ArgumentsPart, Part, TextPart, ToolCallStart

_BEGINNING = re.compile(r"\s*(\[\s*([A-Za-z_][\w.]*\s*(\(.*)?)?)?", re.DOTALL)
_MAX_CHARS = 65_536
_JSON_NAMES = {"true": True, "false": False, "null": None}


class PythonicCallParser:
    """An answer that is such a list and nothing else is calls, given out at its end; any other is text."""

    def __init__(self) -> None:
        self._held = ""
        self._is_text = False

    def feed_text(self, text: str) -> list[Part]:
        """Read `text` and return the parts that are certain now."""
        if not self._is_text:
            text, self._held = self._held + text, ""
            self._is_text = _BEGINNING.fullmatch(text) is None
        if self._is_text:
            return [TextPart(text)] if text else []
        self._held = text
        return []

    def flush_parts(self) -> list[Part]:
        """The calls, or the text that was none."""
        held, self._held = self._held, ""
        if not held:
            return []
        return _parse_calls(held) or [TextPart(held)]


def _parse_calls(text: str) -> list[Part]:
    """The calls that `text` lists; none if it is anything else."""
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
