"""Structural tags: SGLang's and vLLM's way to bind parts of an answer, as a grammar.

A tag is an object in the form of XGrammar's library, or in the older one of `structures` and `triggers`. What
needs tokens, nested grammars or lists of forbidden texts is refused by name.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from radixway.core.http import BadBodyError
from radixway.engine.grammar_compiler import WHITESPACE, OutputConstraint

_TEXT = r"TEXT: /(.|\n)*/"
_ESCAPE_OR_SLASH = re.compile(r"\\.|/", re.DOTALL)
_UNBOUNDED = -1


def make_structural_constraint(given: Any, field: str) -> OutputConstraint:
    """The constraint of a structural tag, an object or written out as JSON. Raises BadBodyError (400) naming
    the part at fault, in `field` of the request."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise _error(field, "is not JSON") from None
    if not isinstance(given, Mapping):
        raise _error(field, "must be an object")
    writer = _GrammarWriter()
    if "format" in given:
        start = writer.write_format(given["format"], f"{field}.format", is_last=True)
    else:
        start = writer.write_format(_convert_structures(given, field), field, is_last=True)
    return OutputConstraint("lark", "\n".join([f"start: {start}", *writer.rules, _TEXT]))


def _convert_structures(given: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the older form as the `format` that means the same."""
    structures = _list_of(given, "structures", field)
    tags = []
    for index, each in enumerate(structures):
        if not isinstance(each, Mapping):
            raise _error(f"{field}.structures[{index}]", "must be an object")
        content = {"type": "json_schema", "json_schema": each.get("schema", {})}
        tags.append({"begin": each.get("begin"), "content": content, "end": each.get("end")})
    return {"type": "triggered_tags", "triggers": given.get("triggers"), "tags": tags}


class _GrammarWriter:
    """Writes formats as rules of llguidance's form of Lark."""

    def __init__(self) -> None:
        self.rules: list[str] = []

    def write_format(self, given: Any, place: str, *, is_last: bool = False) -> str:
        """Return an expression for format `given`, which is at `place` of the request; `is_last`: nothing
        follows it, so that it may be any text."""
        if not isinstance(given, Mapping):
            raise _error(place, "must be an object with a type")
        match given.get("type"):
            case "const_string":
                return _quote(given.get("value"), f"{place}.value")
            case "json_schema":
                return self._write_schema(given, place)
            case "regex":
                pattern = _text_of(given, "pattern", place)
                return self._add_rule(f"/{_ESCAPE_OR_SLASH.sub(_escape_slash, pattern)}/")
            case "any_text" if is_last:
                _refuse_fields(given, place, "excludes", "max_tokens", "max_chars")
                return "TEXT"
            case "any_text":
                raise _error(place, "any_text must come last, or be the content of a tag", "unsupported")
            case "sequence":
                elements = _list_of(given, "elements", place)
                last = len(elements) - 1
                parts = [
                    self.write_format(each, f"{place}.elements[{index}]", is_last=is_last and index == last)
                    for index, each in enumerate(elements)
                ]
                return f"({' '.join(parts)})"
            case "or":
                return self._write_choice(given, place, is_last=is_last)
            case "tag":
                return self._write_tag(given, place)
            case "optional" | "plus" | "star" as kind:
                content = self.write_format(given.get("content"), f"{place}.content")
                return f"({content}){ {'optional': '?', 'plus': '+', 'star': '*'}[kind] }"
            case "repeat":
                return self._write_repeat(given, place)
            case "triggered_tags":
                return self._write_triggered_tags(given, place, is_last=is_last)
            case "tags_with_separator":
                return self._write_separated_tags(given, place)
            case kind:
                raise _error(f"{place}.type", f"{str(kind)[:60]!r} is not supported", "unsupported")

    def _add_rule(self, body: str, options: str = "") -> str:
        name = f"rule_{len(self.rules)}"
        self.rules.append(f"{name}{options}: {body}")
        return name

    def _write_schema(self, given: Mapping[str, Any], place: str) -> str:
        _refuse_fields(given, place, "any_order", "max_whitespace_cnt", "excludes")
        if given.get("style", "json") != "json":
            raise _error(f"{place}.style", "other than json is not supported", "unsupported")
        schema = given.get("json_schema")
        if schema is True:
            schema = {}
        if not isinstance(schema, Mapping):
            raise _error(f"{place}.json_schema", "must be a JSON schema, which is an object")
        options = {"whitespace_pattern": WHITESPACE, "lenient": True}
        return self._add_rule(f"%json {json.dumps({**schema, 'x-guidance': options})}")

    def _write_choice(self, given: Mapping[str, Any], place: str, *, is_last: bool) -> str:
        elements = _list_of(given, "elements", place)
        parts = [
            self.write_format(each, f"{place}.elements[{index}]", is_last=is_last)
            for index, each in enumerate(elements)
        ]
        return f"({' | '.join(parts)})"

    def _write_tag(self, given: Any, place: str, trigger: str = "") -> str:
        """Return an expression for a tag, without the `trigger` with which it begins."""
        if not isinstance(given, Mapping):
            raise _error(place, "must be a tag, which is an object")
        begin = _text_of(given, "begin", place)
        parts = [_quote(begin[len(trigger) :], place)] if len(begin) > len(trigger) else []
        given_ends = given.get("end")
        ends = given_ends if isinstance(given_ends, list) else [given_ends]
        if not ends or not all(isinstance(end, str) for end in ends):
            raise _error(f"{place}.end", "must be a string, or a list of strings")
        end = " | ".join(_quote(each, f"{place}.end") for each in ends if each)
        content = given.get("content")
        if isinstance(content, Mapping) and content.get("type") == "any_text":
            _refuse_fields(content, f"{place}.content", "excludes", "max_tokens", "max_chars")
            if not all(ends):
                raise _error(f"{place}.end", "must not be empty where the content is any text")
            return " ".join([*parts, self._add_rule(f"TEXT ({end})", "[lazy]")])
        parts.append(self.write_format(content, f"{place}.content"))
        if end:
            parts.append(f"({end})" if all(ends) else f"({end})?")
        return f"({' '.join(parts)})"

    def _write_repeat(self, given: Mapping[str, Any], place: str) -> str:
        least, most = given.get("min"), given.get("max")
        if not isinstance(least, int) or not isinstance(most, int) or least < 0:
            raise _error(place, "needs min and max, which are whole numbers")
        if most != _UNBOUNDED and not least <= most > 0:
            raise _error(f"{place}.max", "must be at least min and 1, or -1")
        content = self.write_format(given.get("content"), f"{place}.content")
        return f"({content}){{{least},{'' if most == _UNBOUNDED else most}}}"

    def _write_triggered_tags(self, given: Mapping[str, Any], place: str, *, is_last: bool) -> str:
        _refuse_fields(given, place, "excludes")
        triggers = _list_of(given, "triggers", place)
        tags: dict[str, list[str]] = {}
        for index, tag in enumerate(_list_of(given, "tags", place)):
            where = f"{place}.tags[{index}]"
            begin = tag.get("begin") if isinstance(tag, Mapping) else None
            known = [each for each in triggers if isinstance(each, str) and each]
            found = [each for each in known if isinstance(begin, str) and begin.startswith(each)]
            if len(found) != 1:
                raise _error(f"{where}.begin", "must begin with one of the triggers")
            tags.setdefault(found[0], []).append(self._write_tag(tag, where, found[0]))
        heads = []
        for trigger, parts in tags.items():
            head = self._add_rule(f"TEXT {_quote(trigger, place)}", "[lazy]")
            heads.append(f"{head} ({' | '.join(parts)})")
        some_tag = self._add_rule(" | ".join(heads))
        if given.get("stop_after_first"):
            return some_tag if given.get("at_least_one") else f"({some_tag} | TEXT)"
        if not is_last:
            raise _error(place, "must come last, or stop after the first tag", "unsupported")
        return f"({some_tag}{'+' if given.get('at_least_one') else '*'} TEXT)"

    def _write_separated_tags(self, given: Mapping[str, Any], place: str) -> str:
        tags = _list_of(given, "tags", place)
        parts = [self._write_tag(tag, f"{place}.tags[{index}]") for index, tag in enumerate(tags)]
        some_tag = self._add_rule(" | ".join(parts))
        if not given.get("stop_after_first"):
            separator = given.get("separator")
            between = _quote(separator, f"{place}.separator") if separator != "" else ""
            some_tag = f"{some_tag} ({between} {some_tag})*"
        return f"({some_tag})" if given.get("at_least_one") else f"({some_tag})?"


def _quote(text: Any, place: str) -> str:
    if not isinstance(text, str) or not text:
        raise _error(place, "must be a string that is not empty")
    return json.dumps(text, ensure_ascii=False)


def _escape_slash(found: re.Match[str]) -> str:
    return "\\/" if found[0] == "/" else found[0]


def _text_of(given: Mapping[str, Any], name: str, place: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise _error(f"{place}.{name}", "must be a string that is not empty")
    return value


def _list_of(given: Mapping[str, Any], name: str, place: str) -> Sequence[Any]:
    value = given.get(name)
    if not isinstance(value, list) or not value:
        raise _error(f"{place}.{name}", "must be a list that is not empty")
    return value


def _refuse_fields(given: Mapping[str, Any], place: str, *names: str) -> None:
    for name in names:
        if given.get(name):
            raise _error(f"{place}.{name}", "is not supported", "unsupported")


def _error(param: str, why: str, code: str = "invalid_value") -> BadBodyError:
    return BadBodyError(f"{param}: {why}", param=param, code=code)
