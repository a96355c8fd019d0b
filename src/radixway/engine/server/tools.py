"""`tools` and `tool_choice`: what the template is shown, and what the answer may or must be."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from radixway.engine.constraint import StructuredOutputGrammar
from radixway.engine.errors import InvalidGrammarError
from radixway.engine.grammar import OutputConstraint
from radixway.engine.server.constraints import FieldConstraint, compile_constraint
from radixway.engine.server.tool_grammar import CALL_FORMS, ToolSchema, build_calls_grammar, parameters_schema
from radixway.parsers import ToolFamily
from radixway.web import BadBodyError

if TYPE_CHECKING:
    from radixway.engine.server.service import EngineService


@dataclass(slots=True, frozen=True)
class ToolUse:
    """What a request says about tools."""

    shown: list[ToolSchema] | None = None
    """What the template is given."""
    forced: list[ToolSchema] = field(default_factory=list)
    """The answer must be a call of one of these; none: it may be anything."""
    parallel: bool = True
    """Whether it may be several calls."""

    def call_family(self, known: ToolFamily | None) -> ToolFamily | None:
        """How calls are written and read: as the model does, which may be unknown. Forced calls are JSON."""
        if self.forced and known not in CALL_FORMS:
            return "hermes"
        return known if self.shown else None


def parse_tool_use(
    tools: Sequence[ToolSchema] | None, tool_choice: Any, parallel: bool | None = None
) -> ToolUse:
    """Raises BadBodyError (400) naming the tool or field at fault."""
    for index, tool in enumerate(tools or ()):
        _check_tool(tool, f"tools[{index}]")
    if tool_choice == "none" or (not tools and tool_choice in (None, "auto")):
        return ToolUse()
    if not tools:
        raise _tool_field_error("tool_choice", "needs tools to choose from")
    tools = list(tools)
    match tool_choice:
        case None | "auto":
            return ToolUse(tools, parallel=parallel is not False)
        case "required":
            return ToolUse(tools, tools, parallel is not False)
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            named = [tool for tool in tools if tool["function"]["name"] == name]
            if not named:
                raise _tool_field_error(
                    "tool_choice", f"names a function that is not among the tools: {name[:60]!r}"
                )
            return ToolUse(tools, named, parallel=False)
    how = 'must be auto, none, required or {"type": "function", "function": {"name": …}}'
    raise _tool_field_error("tool_choice", how)


async def compile_tool_grammar(
    service: "EngineService", use: ToolUse, wanted: FieldConstraint | None, family: ToolFamily | None
) -> StructuredOutputGrammar | None:
    """What the answer must be: forced calls; what the client wants; or, if that is JSON, that or calls.

    Raises BadBodyError (400) naming the tool or field that cannot be followed.
    """
    calls = use.forced or (use.shown if wanted and wanted[1].kind == "json_schema" else None)
    if not calls or family is None or family not in CALL_FORMS:
        return await compile_constraint(service, wanted)
    answer = None if use.forced or wanted is None else wanted[1]
    source = build_calls_grammar(calls, family, service.tokenizer, several=use.parallel, answer=answer)
    constraint = OutputConstraint("lark", source)
    grammar = service.grammars.get_cached(constraint)
    if grammar is not None:
        return grammar
    try:
        return await service.run_in_thread(lambda: service.grammars.compile_constraint(constraint))
    except InvalidGrammarError as error:
        await compile_constraint(service, wanted)
        await _refuse_parameters(service, calls)
        raise _tool_field_error("tools", f"cannot be followed: {error}", code="invalid_grammar") from None


async def _refuse_parameters(service: "EngineService", tools: Sequence[ToolSchema]) -> None:
    """Raises BadBodyError (400) for the first tool whose parameters are no schema that can be followed."""
    for index, tool in enumerate(tools):
        schema = json.dumps(parameters_schema(tool))
        constraint = OutputConstraint("json_schema", schema, lenient=not tool["function"].get("strict"))
        await compile_constraint(service, (f"tools[{index}].function.parameters", constraint))


def _check_tool(tool: ToolSchema, place: str) -> None:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        raise _tool_field_error(place, 'must be {"type": "function", "function": {…}}')
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise _tool_field_error(f"{place}.function.name", "must be a string")
    if not isinstance(function.get("parameters"), Mapping | None):
        raise _tool_field_error(f"{place}.function.parameters", "must be a JSON schema, which is an object")
    if (function.get("parameters") or {}).get("type", "object") != "object":
        raise _tool_field_error(
            f"{place}.function.parameters", "must describe an object: arguments have names"
        )
    if not isinstance(function.get("strict"), bool | None):
        raise _tool_field_error(f"{place}.function.strict", "must be true or false")


def _tool_field_error(param: str, why: str, *, code: str = "invalid_value") -> BadBodyError:
    return BadBodyError(f"{param}: {why}", param=param, code=code)
