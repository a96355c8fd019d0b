"""Constraints as clients ask for them: OpenAI's, vLLM's (old and new) and SGLang's fields, one meaning."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from radixway.engine.errors import GrammarUnavailable, InvalidGrammar
from radixway.engine.grammar import WHITESPACE, Constraint, Grammar
from radixway.web import BadBody

if TYPE_CHECKING:
    from radixway.engine.server.service import Service

_ANY_OBJECT = '{"type": "object"}'


class StructuredOutputs(msgspec.Struct, kw_only=True):
    """vLLM's `structured_outputs`."""

    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: Any = None
    disable_any_whitespace: bool | None = None
    whitespace_pattern: str | None = None


class ConstraintFields(msgspec.Struct, kw_only=True):
    """The fields of a request that constrain its answers; at most one of them may be given."""

    response_format: dict[str, Any] | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Any = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_whitespace_pattern: str | None = None
    regex: str | None = None
    ebnf: str | None = None


Wanted = tuple[str, Constraint]
"""The field that asked for it, and what it asked for."""


def wanted_constraint(body: ConstraintFields) -> Wanted | None:
    """The constraint of a request, if it has one. Raises BadBody (400) naming the field at fault."""
    return _only([*_from_response_format(body.response_format), *_from_fields(body)])


def wanted_from_sampling(regex: Any, json_schema: Any, ebnf: Any) -> Wanted | None:
    """The same from /generate's `sampling_params`."""
    place = "sampling_params"
    found = []
    if regex is not None:
        found.append((f"{place}.regex", Constraint("regex", _text(regex, f"{place}.regex"))))
    if json_schema is not None:
        found.append((f"{place}.json_schema", json_constraint(json_schema, f"{place}.json_schema")))
    if ebnf is not None:
        found.append((f"{place}.ebnf", Constraint("grammar", _text(ebnf, f"{place}.ebnf"))))
    return _only(found)


async def compiled(service: "Service", wanted: Wanted | None) -> Grammar | None:
    """The constraint, ready to be followed. Raises BadBody (400) naming the field when it cannot be."""
    if wanted is None:
        return None
    field, constraint = wanted
    grammar = service.grammars.cached(constraint)
    if grammar is not None:
        return grammar
    try:
        return await service.in_a_thread(lambda: service.grammars.compile(constraint))
    except InvalidGrammar as error:
        raise _wrong(field, f"cannot be used: {error}", code="invalid_grammar") from None
    except GrammarUnavailable as error:
        raise _wrong(field, str(error), code="unsupported") from None


def json_constraint(
    schema: Any, field: str, *, lenient: bool = False, whitespace: str | None = None
) -> Constraint:
    """A JSON schema, as an object or written out. Raises BadBody (400)."""
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError):
            raise _wrong(field, "is not JSON") from None
    if not isinstance(schema, Mapping):
        raise _wrong(field, "must be a JSON schema, which is an object")
    pattern = WHITESPACE if whitespace is None else whitespace
    return Constraint("json_schema", json.dumps(schema), lenient=lenient, whitespace=pattern)


def _from_response_format(given: dict[str, Any] | None) -> Iterator[Wanted]:
    match given:
        case None | {"type": "text"}:
            return
        case {"type": "json_object"}:
            yield "response_format", Constraint("json_schema", _ANY_OBJECT)
        case {"type": "json_schema", "json_schema": {"schema": schema, **rest}}:
            field = "response_format.json_schema.schema"
            strict = rest.get("strict")
            if not isinstance(strict, bool | None):
                raise _wrong("response_format.json_schema.strict", "must be true or false")
            yield field, json_constraint(schema, field, lenient=not strict)
        case {"type": "json_schema"}:
            raise _wrong("response_format.json_schema.schema", "is missing", code="missing_field")
        case {"type": str(kind)}:
            why = f"type {kind[:60]!r} is not supported: use text, json_object or json_schema"
            raise _wrong("response_format", why, code="unsupported")
        case _:
            raise _wrong("response_format.type", "must be text, json_object or json_schema")


def _from_fields(body: ConstraintFields) -> Iterator[Wanted]:
    if body.guided_json is not None:
        whitespace = body.guided_whitespace_pattern
        yield "guided_json", json_constraint(body.guided_json, "guided_json", whitespace=whitespace)
    if body.guided_choice is not None:
        yield "guided_choice", _choice(body.guided_choice, "guided_choice")
    for name in ("guided_regex", "regex"):
        if (text := getattr(body, name)) is not None:
            yield name, Constraint("regex", text)
    for name in ("guided_grammar", "ebnf"):
        if (text := getattr(body, name)) is not None:
            yield name, Constraint("grammar", text)
    if body.structured_outputs is not None:
        yield from _from_structured_outputs(body.structured_outputs)


def _from_structured_outputs(given: StructuredOutputs) -> Iterator[Wanted]:
    place = "structured_outputs"
    if given.structural_tag is not None:
        raise _wrong(f"{place}.structural_tag", "is not supported", code="unsupported")
    whitespace = "" if given.disable_any_whitespace else given.whitespace_pattern
    if given.json is not None:
        yield f"{place}.json", json_constraint(given.json, f"{place}.json", whitespace=whitespace)
    if given.json_object:
        field = f"{place}.json_object"
        yield field, json_constraint({"type": "object"}, field, whitespace=whitespace)
    if given.choice is not None:
        yield f"{place}.choice", _choice(given.choice, f"{place}.choice")
    if given.regex is not None:
        yield f"{place}.regex", Constraint("regex", given.regex)
    if given.grammar is not None:
        yield f"{place}.grammar", Constraint("grammar", given.grammar)


def _choice(choices: list[str], field: str) -> Constraint:
    if not choices:
        raise _wrong(field, "is empty: there is nothing to choose from")
    return Constraint("choice", json.dumps(choices))


def _only(found: list[Wanted]) -> Wanted | None:
    if len(found) > 1:
        fields = " and ".join(field for field, _ in found)
        raise _wrong(found[1][0], f"{fields} exclude each other: give one constraint")
    return found[0] if found else None


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise _wrong(field, "must be a string")
    return value


def _wrong(param: str, why: str, *, code: str = "invalid_value") -> BadBody:
    return BadBody(f"{param}: {why}", param=param, code=code)
