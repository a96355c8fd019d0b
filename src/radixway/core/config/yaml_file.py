"""YAML files whose mistakes are told by path and line."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from radixway.core.config.base import ConfigError
from radixway.core.config.sibling_keys import find_sibling_keys
from radixway.core.near_names import suggest_names

Place = tuple[str | int, ...]
"""Path in a tree: keys and indexes from the root."""

_MAX_REPORTED_MISTAKES = 100
_MAX_MERGED_KEYS = 10_000
"""Keys that `<<` may merge into a mapping, or merges could grow without end."""
_IN_WORDS = {
    "extra_forbidden": "there is no such key",
    "model_type": "this must be a mapping of keys",
    "dict_type": "this must be a mapping of keys",
    "tuple_type": "this must be a list",
}
"""Pydantic's error kinds in plain words."""


@dataclass(frozen=True, slots=True)
class FileMistake:
    """A mistake in a file, and its place."""

    text: str
    line: int | None = None
    at: Place = ()

    @property
    def path(self) -> str:
        """The place in the tree: `categories.0.name`."""
        return ".".join(str(part) for part in self.at)


class ConfigFileError(ConfigError):
    """Everything that is wrong with a file; the message has a line for each."""

    def __init__(self, path: Path, found: Iterable[FileMistake]) -> None:
        self.found = tuple(found)
        super().__init__("\n".join(format_mistake(path, mistake) for mistake in self.found))


def format_mistake(path: Path, mistake: FileMistake) -> str:
    """A mistake with its place in the file."""
    where = str(path) if mistake.line is None else f"{path}:{mistake.line}"
    return f"{where}: {mistake.path}: {mistake.text}" if mistake.at else f"{where}: {mistake.text}"


def read_text(path: Path) -> str:
    """Return the text of the file at `path`. Raises ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from None


def read_yaml(path: Path) -> tuple[dict[str, Any], yaml.Node | None]:
    """Return the mapping in the file (empty: `{}`), and the nodes that know its lines. Raises ConfigError."""
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: Path) -> tuple[dict[str, Any], yaml.Node | None]:
    """Parse the text of a file that exists or is to be written. Raises ConfigFileError."""
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        tree = None if root is None else loader.construct_document(root)
    except RecursionError:
        raise ConfigFileError(path, [FileMistake("it is nested too deeply")]) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        what = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ConfigFileError(path, [FileMistake(f"not valid YAML: {what}", line)]) from None
    if tree is None:
        return {}, None
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise ConfigFileError(path, [FileMistake("the file must be a mapping of sections", 1)])
    return tree, root


def line_of(at: Place, node: yaml.Node | None) -> int | None:
    """Return the line at which the longest beginning of `at` stands."""
    found = _nodes_along(at, node)
    return found[-1].start_mark.line + 1 if found else None


def has_node(at: Place, node: yaml.Node | None) -> bool:
    """Return whether all of `at` stands in the file."""
    return len(_nodes_along(at, node)) == len(at)


def _nodes_along(at: Place, node: yaml.Node | None) -> list[yaml.Node]:
    """Return the nodes of `at`, as far as they exist."""
    found: list[yaml.Node] = []
    for part in at:
        if isinstance(node, yaml.MappingNode):
            there = [(key, value) for key, value in node.value if key.value == part]
        elif isinstance(node, yaml.SequenceNode):
            there = [(value, value) for index, value in enumerate(node.value) if index == part]
        else:
            break
        if not there:
            break
        named, node = there[-1]
        found.append(named)
    return found


def locate_mistakes(found: Sequence[tuple[Place, str]], root: yaml.Node | None) -> list[FileMistake]:
    """Return the mistakes in `found` with their lines; of very many the first."""
    mistakes = [FileMistake(text, line_of(at, root), at) for at, text in found[:_MAX_REPORTED_MISTAKES]]
    if len(found) > _MAX_REPORTED_MISTAKES:
        mistakes.append(FileMistake(f"and {len(found) - _MAX_REPORTED_MISTAKES} mistakes more"))
    return mistakes


def places_of_mistakes(
    error: ValidationError, model: type[BaseModel] | None = None
) -> list[tuple[Place, str]]:
    """Return where each mistake is that pydantic found, and what it is, for people.

    `model`: what was validated; of its keys, those near to an unknown one are named.
    """
    return [(mistake["loc"], describe_mistake(mistake, model)) for mistake in error.errors()]


def describe_mistake(mistake: ErrorDetails, model: type[BaseModel] | None = None) -> str:
    """Return what is wrong, for people. `model`: see `places_of_mistakes`."""
    text = _IN_WORDS.get(mistake["type"]) or mistake["msg"].removeprefix("Value error, ")
    at = mistake["loc"]
    if mistake["type"] == "extra_forbidden" and model is not None and at:
        return text + suggest_names(str(at[-1]), find_sibling_keys(model, at))
    if mistake["type"] == "union_tag_invalid":
        tag, expected = mistake["ctx"]["tag"], mistake["ctx"]["expected_tags"]
        near = suggest_names(tag, [name.strip(" '") for name in expected.split(",")])
        return f"{tag!r} is none of {expected}{near}"
    return text


class _Loader(yaml.SafeLoader):
    """Also reports duplicate keys and scalars of the wrong type with their line."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"the key {key.value} comes twice"
                    raise ComposerError(problem=problem, problem_mark=key.start_mark)
                seen.add(key.value)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        count = 0
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for item in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(item, yaml.MappingNode):
                        self.flatten_mapping(item)
                        count += len(item.value)
                    if count > _MAX_MERGED_KEYS:
                        problem = f"more than {_MAX_MERGED_KEYS} keys are merged here"
                        raise ConstructorError(problem=problem, problem_mark=key.start_mark)
        super().flatten_mapping(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):
            kind = node.tag.rpartition(":")[2]
            raise ConstructorError(problem=f"this is no {kind}", problem_mark=node.start_mark) from None
