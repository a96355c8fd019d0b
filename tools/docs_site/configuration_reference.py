"""The configuration reference: every key of the typed tree, read from the models themselves.

What a key means is the text under its field in `src/radixway/core/config/`, which pydantic does not keep; it
is
read from the source, so that nothing has to be said twice and importing the configuration costs nothing more.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, IPvAnyNetwork, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

_DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True, slots=True)
class Key:
    """One key: where it stands, what it takes, what it is unless said."""

    name: str
    type: str
    default: str
    meaning: str
    sections: tuple[tuple[str, type[BaseModel]], ...] = ()
    """Models whose keys stand under this one, each with what tells it from the others."""


@cache
def _class_node(model: type) -> ast.ClassDef | None:
    try:
        tree = ast.parse(inspect.getsource(model).lstrip())
    except (OSError, TypeError):
        return None
    return next((node for node in tree.body if isinstance(node, ast.ClassDef)), None)


def meaning_of(model: type[BaseModel], name: str) -> str:
    """The text under a field, of the class that declares it last."""
    for declaring in model.__mro__:
        node = _class_node(declaring) if name in inspect.get_annotations(declaring) else None
        if node is None:
            continue
        for field, after in zip(node.body, [*node.body[1:], None], strict=True):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            if field.target.id != name:
                continue
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return inspect.cleandoc(str(after.value.value))
    if _is_one_word(model.model_fields[name].annotation):
        return "Which one this is."
    if "not used" in summary(model):
        return "Read and not used."
    return model.model_fields[name].description or ""


def _is_one_word(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Literal and len(typing.get_args(annotation)) == 1


def summary(model: type[BaseModel]) -> str:
    """What a section is for: its docstring, unless it only has its base's."""
    return inspect.cleandoc(model.__doc__ or "") if "__doc__" in model.__dict__ else ""


def _models_within(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for part in typing.get_args(annotation):
        yield from _models_within(part)


def type_in_words(annotation: Any) -> str:
    """`integer or null`, `list of texts`, `off, report or block`: as one writes YAML."""
    origin = typing.get_origin(annotation)
    if annotation is None or annotation is type(None):
        return "null"
    if origin is Annotated:
        return type_in_words(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        parts = list(dict.fromkeys(type_in_words(part) for part in typing.get_args(annotation)))
        return _or(sorted(parts, key=lambda part: part == "null"))
    if origin is Literal:
        return _or(
            [
                f"`{str(value).lower() if isinstance(value, bool) else value}`"
                for value in typing.get_args(annotation)
            ]
        )
    if origin is not None and isinstance(origin, type):
        inside = [part for part in typing.get_args(annotation) if part is not Ellipsis]
        if issubclass(origin, Mapping):
            return f"mapping of {_plural(type_in_words(inside[-1]))}"
        if issubclass(origin, (list, tuple, set, frozenset)):
            return f"list of {_plural(type_in_words(inside[0]))}" if inside else "list"
    if isinstance(annotation, typing.TypeAliasType) if hasattr(typing, "TypeAliasType") else False:
        return type_in_words(annotation.__value__)
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            return "section"
        if issubclass(annotation, Enum):
            return _or([f"`{member.value}`" for member in annotation])
        for known, word in _WORDS:
            if issubclass(annotation, known):
                return word
        return annotation.__name__
    return str(annotation).removeprefix("typing.").replace("Any", "anything")


_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "integer"),
    (float, "number"),
    (SecretStr, "secret text"),
    (IPvAnyNetwork, "network"),
    (str, "text"),
    (Path, "path"),
    (dict, "mapping"),
)


def _or(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def _plural(word: str) -> str:
    return {
        "text": "texts",
        "section": "sections",
        "integer": "integers",
        "number": "numbers",
        "path": "paths",
        "network": "networks",
        "secret text": "secret texts",
    }.get(word, word)


def _bounds(field: FieldInfo) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "length ≥", "max_length": "length ≤"}
    found = [
        f"{sign} {getattr(rule, name):,}"
        if isinstance(getattr(rule, name), int)
        else f"{sign} {getattr(rule, name)}"
        for rule in field.metadata
        for name, sign in signs.items()
        if getattr(rule, name, None) is not None
    ]
    return f" ({', '.join(found)})" if found else ""


def default_in_words(field: FieldInfo) -> str:
    """As one would write it in YAML; nothing for a section, whose keys have their own."""
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True) if not _needs_data(field) else PydanticUndefined
    return "" if value is PydanticUndefined else _value_in_words(value)


def _needs_data(field: FieldInfo) -> bool:
    return field.default_factory is not None and field.default_factory_takes_validated_data is True


def _value_in_words(value: Any) -> str:
    if isinstance(value, BaseModel):
        name = getattr(value, "name", None)
        return f"`{name}`" if isinstance(name, str) else ""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"[{', '.join(str(each) for each in value)}]" if value else "[]"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {each}" for key, each in value.items()) if value else "{}"
    if isinstance(value, Enum):
        return str(value.value)
    return f'"{value}"' if value == "" else str(value)


def keys_of(model: type[BaseModel]) -> list[Key]:
    """Every key that a model takes, in the order in which it declares them."""
    told = []
    for name, field in model.model_fields.items():
        within = tuple(dict.fromkeys(_models_within(_annotation(model, name, field))))
        told.append(
            Key(
                name=field.alias or name,
                type=type_in_words(field.annotation) + _bounds(field),
                default=default_in_words(field),
                meaning=meaning_of(model, name),
                sections=tuple((_told_apart(each) if len(within) > 1 else "", each) for each in within),
            )
        )
    return told


def _annotation(model: type[BaseModel], name: str, field: FieldInfo) -> Any:
    if model.__name__ == "Config" and name == "semantic":  # its models are built where it is configured
        from radixway.core.config.semantic import SemanticConfig

        return SemanticConfig | None
    return field.annotation


def _told_apart(model: type[BaseModel]) -> str:
    name = model.model_fields.get("name")
    if name is not None and typing.get_origin(name.annotation) is Literal:
        return ", ".join(str(value) for value in typing.get_args(name.annotation))
    return re.sub(
        r"(?<!^)(?=[A-Z])", " ", model.__name__.removesuffix("Section").removesuffix("Policy")
    ).lower()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _linked(text: str) -> str:
    """`(docs/routing.md)` in a comment is a page here."""

    def page(match: re.Match[str]) -> str:
        return f"([{match[1]}](../{match[1]}.md))" if (_DOCS / f"{match[1]}.md").is_file() else match[0]

    return re.sub(r"\(docs/([\w-]+)\.md\)", page, text)


def _places(title: str, model: type[BaseModel], found: dict[type[BaseModel], str]) -> None:
    """Where each model is told: under the first key that takes it, for it is told once."""
    found[model] = title
    for key in keys_of(model):
        for apart, each in key.sections:
            if each not in found:
                _places(_path(title, key, apart), each, found)


def _tell(
    title: str, model: type[BaseModel], depth: int, places: Mapping[type[BaseModel], str]
) -> Iterator[str]:
    """A section, and those below it that are told there."""
    yield f"{'#' * min(depth, 6)} `{title}` {{ #{_anchor(title)} }}\n"
    yield f"{_linked(summary(model))}\n"
    keys = keys_of(model)
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    for key in keys:
        shown = f"`{key.name}`"
        if key.sections:
            shown = f"[`{key.name}`](#{_anchor(places[key.sections[0][1]])})"
        default = f"`{key.default}`" if key.default and not key.default.startswith("`") else key.default
        if key.default == "needed":
            default = "*needed*"
        meaning = _linked(key.meaning or _of_sections(key))
        yield f"| {shown} | {_cell(key.type)} | {_cell(default)} | {_cell(meaning)} |"
    yield ""
    for key in keys:
        for apart, each in key.sections:
            path = _path(title, key, apart)
            if places[each] == path:
                yield from _tell(path, each, depth + 1, places)


def _of_sections(key: Key) -> str:
    return summary(key.sections[0][1]).split("\n\n")[0] if len(key.sections) == 1 else ""


def _path(title: str, key: Key, apart: str) -> str:
    each = "[]" if key.type.startswith("list of") else (".NAME" if key.type.startswith("mapping of") else "")
    return f"{title}.{key.name}{each}" + (f" ({apart})" if apart else "")


def _anchor(title: str) -> str:
    return re.sub(r"[^\w]+", "-", title.lower()).strip("-")


def holes(model: type[BaseModel], at: str = "", inside: tuple[type, ...] = ()) -> list[str]:
    """Keys of which nothing says what they mean, neither under them nor in their section."""
    found = []
    for key in keys_of(model):
        path = f"{at}.{key.name}".lstrip(".")
        if not key.meaning and not _of_sections(key):
            found.append(path)
        for _, each in key.sections:
            if each not in inside:
                found += holes(each, path, (*inside, each))
    return found


def configuration_reference() -> str:
    """The page."""
    from radixway.core.config import Config

    parts = [
        "# Every key of the configuration\n",
        "Made from the typed tree in `src/radixway/core/config/` when this site is built, so it is what this "
        "version takes. Every key is optional unless it says *needed*; "
        "`RADIXWAY__SECTION__KEY` in the environment "
        "overrides the file. The [annotated file](../configuration.md) shows all of it as one YAML.\n",
    ]
    keys = keys_of(Config)
    parts += [f"- [`{key.name}`](#{_anchor(_path('', key, '').lstrip('.'))})" for key in keys]
    parts.append("")
    sections = [(_path("", key, apart).lstrip("."), model) for key in keys for apart, model in key.sections]
    places: dict[type[BaseModel], str] = {}
    for title, model in sections:
        if model not in places:
            _places(title, model, places)
    for title, model in sections:
        parts += _tell(title, model, 2, places)
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(configuration_reference())
