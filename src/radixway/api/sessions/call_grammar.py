"""The grammar of a forced tool call, in the GBNF that `/generate` of SGLang and the embedded engine take."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from radixway.core.parsers import CALL_FORMS, AnswerFormat
from radixway.core.protocols import Tool

_MAX_DEPTH = 16
"""Levels of a schema that are followed; what is below may be any JSON value."""
_JSON_RULES = r"""
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" (string ":" sp value ("," sp string ":" sp value)*)? "}"
array ::= "[" (value ("," sp value)*)? "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" hex hex hex hex))* "\""
hex ::= [0-9a-fA-F]
integer ::= "-"? ("0" | [1-9] digits)
number ::= integer ("." [0-9] digits)? ([eE] [-+]? [0-9] [0-9]? [0-9]?)?
sp ::= " "?
"""
_DIGITS = f"digits ::= {'[0-9]? ' * 15}\n"
"""Small models would write digits for ever."""
_THINKING = r"""
thinking ::= ([^<] | "<"+ [^/<])* "</think>" "\n"*
"""


def build_call_grammar(tools: Sequence[Tool], reading: AnswerFormat, *, several: bool) -> str:
    """Return the grammar of answers that call one of `tools`, or `several` times, and say nothing else.

    `reading`: the form of calls, and where the model thinks first. Arguments follow a schema's types,
    properties, items, choices and required names; its other keywords are passed over.
    """
    assert reading.tools is not None
    form = CALL_FORMS[reading.tools]
    any_call = " | ".join(f"call{index}" for index in range(len(tools)))
    more = f"({_quote(form.between)} call)*" if several else ""
    thought = {"inside": "thinking", "before": '("<think>" thinking)?', "after": ""}[reading.place]
    lines = [
        f"root ::= {thought} {_quote(form.first)} call {more} {_quote(form.last)}",
        f"call ::= {_quote(form.opens)} ({any_call}) {_quote(form.closes)}",
    ]
    schemas = _SchemaWriter()
    for index, tool in enumerate(tools):
        name = json.dumps(tool["function"]["name"], ensure_ascii=False)
        head = _quote(f'{{"name": {name}, "{form.arguments}": ')
        schema = {"type": "object", **(tool["function"].get("parameters") or {"properties": {}})}
        lines.append(f'call{index} ::= {head} {schemas.write_schema(schema)} "}}"')
    return "\n".join(lines + schemas.rules) + (_THINKING if thought else "") + _JSON_RULES + _DIGITS


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""


class _SchemaWriter:
    """Writes the values that schemas describe as rules; each part of a schema is written once."""

    def __init__(self) -> None:
        self.rules: list[str] = []

    def write_schema(self, schema: Any, depth: int = _MAX_DEPTH) -> str:
        """Return an expression for the values that `schema` describes, `depth` levels of it."""
        if not isinstance(schema, Mapping) or not depth:
            return "value"
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list) and choices:
            return _any_of([_quote(json.dumps(choice, ensure_ascii=False)) for choice in choices])
        for name in ("anyOf", "oneOf"):
            if isinstance(schema.get(name), list) and schema[name]:
                return _any_of([self.write_schema(each, depth - 1) for each in schema[name]])
        match schema.get("type"):
            case list(kinds) if kinds:
                each_once = dict.fromkeys(map(str, kinds))
                return _any_of([self.write_schema({**schema, "type": kind}, depth - 1) for kind in each_once])
            case "string" | "integer" | "number" as kind:
                return str(kind)
            case "boolean":
                return '("true" | "false")'
            case "null":
                return '"null"'
            case "array":
                item = self._add_rule(self.write_schema(schema.get("items"), depth - 1))
                return f'"[" ({item} ("," sp {item})*)? "]"'
            case "object" if isinstance(schema.get("properties"), Mapping):
                return self._write_object(schema["properties"], schema.get("required"), depth)
            case "object":
                return "object"
        return "value"

    def _add_rule(self, body: str) -> str:
        name = f"part{len(self.rules)}"
        self.rules.append(f"{name} ::= {body}")
        return name

    def _write_object(self, properties: Mapping[str, Any], required: Any, depth: int) -> str:
        """Return an expression for objects: required properties first, then others, as they are listed."""

        def write_pair(name: str, schema: Any) -> str:
            key = _quote(json.dumps(name, ensure_ascii=False))
            return f'{key} ":" sp {self.write_schema(schema, depth - 1)}'

        names = required if isinstance(required, list) else []
        needed = dict.fromkeys(name for name in names if isinstance(name, str))
        others = [write_pair(name, schema) for name, schema in properties.items() if name not in needed]
        if needed:
            first = ' "," sp '.join(write_pair(name, properties.get(name)) for name in needed)
            rest = "".join(f' ("," sp {pair})?' for pair in others)
            return f'"{{" {first}{rest} "}}"'
        starts, rest = list[str](), ""
        for pair in map(self._add_rule, reversed(others)):
            starts.append(f"{pair} {rest}")
            rest = self._add_rule(f'("," sp {pair})? {rest}')
        return f'"{{" {_any_of(starts[::-1])}? "}}"' if starts else '"{}"'


def _any_of(rules: Sequence[str]) -> str:
    return f"({' | '.join(rules)})"
