"""`tools` and `tool_choice`, and the grammar of forced calls for each family of models."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from radixway.core.parsers import CALL_FORMS, MARKERS, ToolFamily, forced_call_family
from radixway.core.protocols.request import field_error, select_allowed_tools
from radixway.core.tokenizer import Tokenizer
from radixway.engine.errors import InvalidGrammarError
from radixway.engine.grammar_compiler import WHITESPACE, OutputConstraint
from radixway.engine.server.openai_fields import FieldConstraint
from radixway.engine.structured_output import StructuredOutputGrammar

if TYPE_CHECKING:
    from radixway.engine.server.engine_service import EngineService

ToolSchema: TypeAlias = dict[str, Any]
"""`{"type": "function", "function": {"name", "parameters", …}}`, checked."""


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
    """Return the text as literals; markers that are special tokens stand as such."""
    for marker in markers:
        before, found, after = text.partition(marker)
        token_id = tokenizer.backend.token_to_id(marker)
        if found and token_id in tokenizer.special_ids:
            rest = _literal_terminals(after, markers, tokenizer)
            return [*_literal_terminals(before, markers, tokenizer), f"<[{token_id}]>", *rest]
    return [_quote_text(text)] if text else []


@dataclass(slots=True, frozen=True)
class ToolUse:
    """A request's tools, and whether it forces a call."""

    shown: list[ToolSchema] | None = None
    """Tools that the template gets."""
    forced: list[ToolSchema] = field(default_factory=list)
    """The answer must be a call of one of these; none: it may be anything."""
    parallel: bool = True
    """Whether several calls are allowed."""

    def call_family(self, known: ToolFamily | None) -> ToolFamily | None:
        """The family whose form calls have: the `known` one, or Hermes for forced calls of none."""
        if self.forced:
            return forced_call_family(known)
        return known if self.shown else None


def parse_tool_use(
    tools: Sequence[ToolSchema] | None, tool_choice: Any, parallel: bool | None = None
) -> ToolUse:
    """Check `tools` and `tool_choice`. Raises BadBodyError (400) naming the tool or field at fault."""
    for index, tool in enumerate(tools or ()):
        _check_tool(tool, f"tools[{index}]")
    if tool_choice == "none" or (not tools and tool_choice in (None, "auto")):
        return ToolUse()
    if not tools:
        raise field_error("tool_choice", "needs tools to choose from")
    tools = list(tools)
    match tool_choice:
        case None | "auto":
            return ToolUse(tools, parallel=parallel is not False)
        case "required":
            return ToolUse(tools, tools, parallel is not False)
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            named = [tool for tool in tools if tool["function"]["name"] == name]
            if not named:
                raise field_error("tool_choice", f"Tool {name[:60]!r} not found in tools list")
            return ToolUse(tools, named, parallel=False)
        case {"type": "allowed_tools"}:
            shown, mode = select_allowed_tools(tool_choice, tools)
            return ToolUse(shown, shown if mode == "required" else [], parallel is not False)
    how = 'must be auto, none, required or {"type": "function", "function": {"name": …}}'
    raise field_error("tool_choice", how)


async def compile_tool_grammar(
    service: "EngineService", use: ToolUse, wanted: FieldConstraint | None, family: ToolFamily | None
) -> StructuredOutputGrammar | None:
    """Compile the grammar of the answer: forced calls; what the client `wanted`; or, if that is JSON, that
    or calls.

    Raises BadBodyError (400) naming the tool or field that cannot be followed.
    """
    calls = use.forced or (use.shown if wanted and wanted[1].kind == "json_schema" else None)
    if not calls or family is None or family not in CALL_FORMS:
        return await service.compile_constraint(wanted)
    answer = None if use.forced or wanted is None else wanted[1]
    source = build_calls_grammar(calls, family, service.tokenizer, several=use.parallel, answer=answer)
    try:
        return await service.compile_grammar(OutputConstraint("lark", source))
    except InvalidGrammarError as error:
        await service.compile_constraint(wanted)
        await _refuse_parameters(service, calls)
        raise field_error("tools", f"cannot be followed: {error}", code="invalid_grammar") from None


async def _refuse_parameters(service: "EngineService", tools: Sequence[ToolSchema]) -> None:
    """Raises BadBodyError (400) for the first tool whose parameters are no schema that can be followed."""
    for index, tool in enumerate(tools):
        schema = json.dumps(parameters_schema(tool))
        constraint = OutputConstraint("json_schema", schema, lenient=not tool["function"].get("strict"))
        try:
            await service.compile_grammar(constraint)
        except InvalidGrammarError as error:
            why = f"invalid 'parameters' schema: {error}"
            place = f"tools[{index}].function.parameters"
            raise field_error(place, why, code="invalid_grammar") from None


def _check_tool(tool: ToolSchema, place: str) -> None:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        raise field_error(place, 'must be {"type": "function", "function": {…}}')
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise field_error(f"{place}.function.name", "must be a string")
    if not isinstance(function.get("parameters"), Mapping | None):
        raise field_error(f"{place}.function.parameters", "must be a JSON schema, which is an object")
    if (function.get("parameters") or {}).get("type", "object") != "object":
        raise field_error(f"{place}.function.parameters", "must describe an object: arguments have names")
    if not isinstance(function.get("strict"), bool | None):
        raise field_error(f"{place}.function.strict", "must be true or false")
