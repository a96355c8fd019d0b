"""The grammar of tool calls, as each family of models writes them: what `tool_choice: required` enforces."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from radixway.engine.grammar import WHITESPACE, OutputConstraint
from radixway.parsers import MARKERS, ToolFamily
from radixway.tokenizer import Tokenizer

ToolSchema: TypeAlias = dict[str, Any]
"""`{"type": "function", "function": {"name", "parameters", …}}`, checked."""


class ToolCallForm(NamedTuple):
    """The text around calls: `first`, each within `opens` and `closes`, `between` two, `last`."""

    arguments: str
    first: str = ""
    opens: str = ""
    between: str = ""
    closes: str = ""
    last: str = ""


CALL_FORMS: dict[ToolFamily, ToolCallForm] = {
    "hermes": ToolCallForm("arguments", opens="<tool_call>\n", between="\n", closes="\n</tool_call>"),
    "llama3": ToolCallForm("parameters", between="; "),
    "mistral": ToolCallForm("arguments", first="[TOOL_CALLS][", between=", ", last="]"),
}


def build_calls_grammar(
    tools: Sequence[ToolSchema],
    family: ToolFamily,
    tokenizer: Tokenizer,
    *,
    several: bool,
    answer: OutputConstraint | None = None,
) -> str:
    """Calls of `tools`, or else the JSON document `answer`, if there is one; in llguidance's form of Lark."""
    form = CALL_FORMS[family]

    def literal(text: str) -> str:
        return " ".join(_literal_terminals(text, MARKERS[family], tokenizer))

    any_call = " | ".join(f"call_{index}" for index in range(len(tools)))
    more = f"({literal(form.between)} call)*" if several else ""
    lines = [
        f"start: calls{' | answer' if answer else ''}",
        f"calls: {literal(form.first)} call {more} {literal(form.last)}",
        f"call: {literal(form.opens)} ({any_call}) {literal(form.closes)}",
    ]
    if answer:
        lines.append(f"answer: {_json_rule(json.loads(answer.source), answer.lenient, answer.whitespace)}")
    for index, tool in enumerate(tools):
        name = _quote_text(tool["function"]["name"])
        head = _quote_text(f'{{"name": {name}, "{form.arguments}": ')
        schema = _json_rule(parameters_schema(tool), not tool["function"].get("strict"), WHITESPACE)
        lines += [
            f"call_{index}: {head} arguments_{index} {_quote_text('}')}",
            f"arguments_{index}: {schema}",
        ]
    return "\n".join(lines)


def parameters_schema(tool: ToolSchema) -> dict[str, Any]:
    """The schema of a tool's arguments; without one it takes none."""
    return tool["function"].get("parameters") or {"type": "object", "additionalProperties": False}


def _json_rule(schema: Mapping[str, Any], lenient: bool, whitespace: str) -> str:
    options = {"whitespace_pattern": whitespace, "lenient": lenient}
    return f"%json {json.dumps({**schema, 'x-guidance': options})}"


def _quote_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _literal_terminals(text: str, markers: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """The text as literals; a marker that is a special token is not written by its letters, but as that."""
    for marker in markers:
        before, found, after = text.partition(marker)
        token_id = tokenizer.backend.token_to_id(marker)
        if found and token_id in tokenizer.special_ids:
            rest = _literal_terminals(after, markers, tokenizer)
            return [*_literal_terminals(before, markers, tokenizer), f"<[{token_id}]>", *rest]
    return [_quote_text(text)] if text else []
