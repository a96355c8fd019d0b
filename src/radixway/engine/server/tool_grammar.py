"""The grammar of tool calls, as each family of models writes them: what `tool_choice: required` enforces."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from radixway.engine.grammar import WHITESPACE, Constraint
from radixway.parsers import MARKERS, ToolFamily
from radixway.tokenizer import Tokenizer

Tool: TypeAlias = dict[str, Any]
"""`{"type": "function", "function": {"name", "parameters", …}}`, checked."""


class CallForm(NamedTuple):
    """The text around calls: `first`, each within `opens` and `closes`, `between` two, `last`."""

    arguments: str
    first: str = ""
    opens: str = ""
    between: str = ""
    closes: str = ""
    last: str = ""


CALL_FORMS: dict[ToolFamily, CallForm] = {
    "hermes": CallForm("arguments", opens="<tool_call>\n", between="\n", closes="\n</tool_call>"),
    "llama3": CallForm("parameters", between="; "),
    "mistral": CallForm("arguments", first="[TOOL_CALLS][", between=", ", last="]"),
}


def calls_grammar(
    tools: Sequence[Tool],
    family: ToolFamily,
    tokenizer: Tokenizer,
    *,
    several: bool,
    answer: Constraint | None = None,
) -> str:
    """Calls of `tools`, or else the JSON document `answer`, if there is one; in llguidance's form of Lark."""
    form = CALL_FORMS[family]

    def literal(text: str) -> str:
        return " ".join(_terminals(text, MARKERS[family], tokenizer))

    any_call = " | ".join(f"call_{index}" for index in range(len(tools)))
    more = f"({literal(form.between)} call)*" if several else ""
    lines = [
        f"start: calls{' | answer' if answer else ''}",
        f"calls: {literal(form.first)} call {more} {literal(form.last)}",
        f"call: {literal(form.opens)} ({any_call}) {literal(form.closes)}",
    ]
    if answer:
        lines.append(f"answer: {_json(json.loads(answer.source), answer.lenient, answer.whitespace)}")
    for index, tool in enumerate(tools):
        name = _quoted(tool["function"]["name"])
        head = _quoted(f'{{"name": {name}, "{form.arguments}": ')
        schema = _json(parameters(tool), not tool["function"].get("strict"), WHITESPACE)
        lines += [f"call_{index}: {head} arguments_{index} {_quoted('}')}", f"arguments_{index}: {schema}"]
    return "\n".join(lines)


def parameters(tool: Tool) -> dict[str, Any]:
    """The schema of a tool's arguments; without one it takes none."""
    return tool["function"].get("parameters") or {"type": "object", "additionalProperties": False}


def _json(schema: Mapping[str, Any], lenient: bool, whitespace: str) -> str:
    options = {"whitespace_pattern": whitespace, "lenient": lenient}
    return f"%json {json.dumps({**schema, 'x-guidance': options})}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _terminals(text: str, markers: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """The text as literals; a marker that is a special token is not written by its letters, but as that."""
    for marker in markers:
        before, found, after = text.partition(marker)
        token_id = tokenizer.backend.token_to_id(marker)
        if found and token_id in tokenizer.special_ids:
            rest = _terminals(after, markers, tokenizer)
            return [*_terminals(before, markers, tokenizer), f"<[{token_id}]>", *rest]
    return [_quoted(text)] if text else []
