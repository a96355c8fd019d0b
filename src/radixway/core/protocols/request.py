"""A client's request, whatever protocol it came in, and the fields that protocols share."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from radixway.core.http import BadBodyError
from radixway.core.parsers import AnswerFormat, ModelFamily, detect_thinking_place, forced_call_family

Message: TypeAlias = dict[str, Any]
"""A message in the form of chat completions: `role`, `content`, `reasoning_content`, `tool_calls` …"""
Tool: TypeAlias = dict[str, Any]
"""`{"type": "function", "function": {"name", "description", "parameters", …}}`, checked."""


@dataclass(slots=True, kw_only=True)
class NormalizedRequest:
    """A request for one answer, in no protocol's form."""

    model: str | None
    messages: list[Message] = field(default_factory=list)
    """The conversation as this request tells it; empty for a plain prompt."""
    prompt: str | list[int] | None = None
    """A plain prompt, as text or token ids: completions only."""
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    """`auto`, `none`, `required` or `{"type": "function", "function": {"name": …}}`; None without tools."""
    parallel_tool_calls: bool = True
    sampling: dict[str, Any] = field(default_factory=dict)
    """Sampling parameters under the names of /generate's `sampling_params`: `max_new_tokens`, `stop` …"""
    stream: bool = False
    include_usage: bool = False
    """The stream of a protocol that tells usage on request is to end with it."""
    top_logprobs: int | None = None
    """Log-probabilities are asked for, with so many alternatives to each token; None: they are not."""
    return_token_ids: bool = False
    template_arguments: dict[str, Any] = field(default_factory=dict)
    """Template arguments beside the messages: `enable_thinking`, `reasoning_effort` …"""
    continue_final_message: bool = False
    """The last message is the beginning of the answer."""
    previous_response_id: str | None = None
    """The reply that this request goes on from; its messages come before these."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """The body as it came."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Its fields that the protocol here does not know."""

    @property
    def chat_sampling(self) -> dict[str, Any]:
        """Its sampling parameters under the names of chat completions; `json_schema` has none there."""
        return {_CHAT_NAMES.get(name, name): value for name, value in self.sampling.items()}

    @property
    def visible_tools(self) -> list[Tool] | None:
        """The tools that the template is given; None where the client forbids calls."""
        return None if self.tool_choice == "none" else self.tools

    @property
    def forced_tools(self) -> list[Tool]:
        """The tools of which the answer must call one; none where it may say something else."""
        if isinstance(self.tool_choice, dict):
            name = self.tool_choice["function"]["name"]
            return [tool for tool in self.tools or () if tool["function"]["name"] == name]
        return list(self.tools or ()) if self.tool_choice == "required" else []

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of the answer; None: as many as fit."""
        limit: int | None = self.sampling.get("max_new_tokens")
        return limit

    def answer_format(self, family: ModelFamily, prompt: str) -> AnswerFormat:
        """Return how to read the answer of a model of this `family` to the rendered `prompt`.

        The text must contain the reading's `markers`, even where they are special tokens.
        """
        if self.prompt is not None:
            return AnswerFormat()
        continued = _content_text(self.messages[-1].get("content")) if self.continue_final_message else None
        tools = family.tools if self.visible_tools else None
        if self.forced_tools:
            tools = forced_call_family(tools)
        return AnswerFormat(
            detect_thinking_place(family.thinking, prompt, continued),
            tools,
            None if self.parallel_tool_calls else 1,
        )


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(_content_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


Count = Annotated[int, Meta(ge=1)]
_RENAMED = {"min_tokens": "min_new_tokens", "seed": "sampling_seed"}
_CHAT_NAMES = {"max_new_tokens": "max_tokens", **{theirs: ours for ours, theirs in _RENAMED.items()}}


class SamplingFields(msgspec.Struct, kw_only=True):
    """Sampling parameters of a body of any protocol: OpenAI's fields and what engines add to them."""

    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: int | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    min_tokens: Annotated[int, Meta(ge=0)] | None = None
    seed: int | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    logit_bias: dict[str, float] | None = None
    regex: str | None = None
    ebnf: str | None = None

    def sampling(
        self,
        *,
        max_tokens: int | None,
        stop: str | Sequence[str] | None = None,
        json_schema: str | None = None,
    ) -> dict[str, Any]:
        """Return /generate's `sampling_params`, with `max_tokens`, `stop` and whatever else was given."""
        stops = [stop] if isinstance(stop, str) else list(stop or ())
        given = {_RENAMED.get(name, name): getattr(self, name) for name in SamplingFields.__struct_fields__}
        given |= {"max_new_tokens": max_tokens, "stop": stops or None, "json_schema": json_schema}
        return {name: value for name, value in given.items() if value is not None}


def response_json_schema(
    form: Mapping[str, Any] | None, place: str, *, nested: str | None = None
) -> str | None:
    """The schema that the answer must follow; None where it may be any text.

    `form` is `{"type": "text" | "json_object" | "json_schema", …}`, with the schema itself under `nested`.
    Raises BadBodyError (400).
    """
    match form:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return '{"type": "object"}'
        case {"type": "json_schema"}:
            container = form.get(nested) if nested else form
            schema = container.get("schema") if isinstance(container, dict) else None
            where = ".".join(filter(None, [place, nested, "schema"]))
            if not isinstance(schema, dict):
                raise field_error(where, "must be a JSON schema, which is an object")
            return json.dumps(schema, ensure_ascii=False)
    raise field_error(f"{place}.type", "must be text, json_object or json_schema")


def require_single_answer(name: str, count: int | None) -> None:
    """Raise BadBodyError (400) where `count` is more than one answer: a session goes on from one."""
    if count not in (None, 1):
        raise field_error(name, f"must be 1 in a session, not {count}", code="unsupported")


def field_error(param: str, why: str, *, code: str = "invalid_value") -> BadBodyError:
    """Build the error (400) that names the field `param` and says `why`."""
    return BadBodyError(f"{param}: {why}", param=param, code=code)


def require_string(value: Any, place: str) -> str:
    """Return `value`. Raises BadBodyError (400) naming `place` in the body unless it is a string."""
    if not isinstance(value, str):
        raise field_error(place, "is missing" if value is None else "must be a string")
    return value


def shorten_value(value: Any) -> str:
    """Return a client's `value` for an error message, shortened to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def build_function_tool(function: dict[str, Any], place: str, *, schema_at: str) -> Tool:
    """A tool of these fields, without those that are null. Raises BadBodyError (400) naming the one at fault.

    `schema_at`: what the protocol calls the parameters' schema.
    """
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise field_error(f"{place}.name", "must be a string")
    if not isinstance(function.get("description"), str | None):
        raise field_error(f"{place}.description", "must be a string")
    schema = function.get("parameters")
    if not isinstance(schema, dict | None):
        raise field_error(f"{place}.{schema_at}", "must be a JSON schema, which is an object")
    if (schema or {}).get("type", "object") != "object":
        raise field_error(f"{place}.{schema_at}", "must describe an object: arguments have names")
    given = {name: value for name, value in function.items() if value is not None}
    return {"type": "function", "function": given}


def parse_tool_choice(given: Any, tools: Sequence[Tool] | None) -> str | dict[str, Any] | None:
    """Convert `given`, of chat completions or Responses' flat one, to a `tool_choice` of chat completions."""
    match given:
        case None | "auto":
            return "auto" if tools else None
        case "none":
            return "none"
        case "required" if tools:
            return "required"
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            if not any(tool["function"]["name"] == name for tool in tools or ()):
                raise field_error(
                    "tool_choice", f"names a function that is not among the tools: {shorten_value(name)}"
                )
            return {"type": "function", "function": {"name": name}}
        case "required":
            raise field_error("tool_choice", "needs tools to choose from")
    raise field_error("tool_choice", "must be auto, none, required or name a function")


def choose_tools(
    given: Any, tools: list[Tool] | None
) -> tuple[list[Tool] | None, str | dict[str, Any] | None]:
    """Return the `tools` that may be called by `given`, a `tool_choice`, and how: as `parse_tool_choice`
    tells it; of OpenAI's `allowed_tools`, their mode. Raises BadBodyError (400)."""
    match given:
        case {"type": "allowed_tools"}:
            return select_allowed_tools(given, tools or [])
    return tools, parse_tool_choice(given, tools)


def select_allowed_tools(given: dict[str, Any], tools: Sequence[Tool]) -> tuple[list[Tool], str]:
    """Of `tools` those that OpenAI's `allowed_tools`, the type of `given`, names, and its mode.

    Of chat completions it is `{"allowed_tools": {"mode", "tools"}}`, of Responses flat, as its tools are.
    Raises BadBodyError (400) naming what is wrong.
    """
    allowed, place = given, "tool_choice"
    if "allowed_tools" in given:
        allowed, place = given["allowed_tools"], "tool_choice.allowed_tools"
    match allowed:
        case {"mode": "auto" | "required" as mode, "tools": [*named]} if named:
            pass
        case _:
            raise field_error(place, "needs a mode, auto or required, and tools")
    names = set()
    for index, tool in enumerate(named):
        match tool:
            case {"type": "function", "function": {"name": str(name)}} | {
                "type": "function",
                "name": str(name),
            }:
                names.add(name)
            case _:
                raise field_error(f"{place}.tools[{index}]", "names no function")
        if not any(known["function"]["name"] == name for known in tools):
            raise field_error(f"{place}.tools[{index}]", f"{shorten_value(name)} is not among the tools")
    return [tool for tool in tools if tool["function"]["name"] in names], mode
