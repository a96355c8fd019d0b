"""YAML files whose mistakes are told by path and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic_core import ErrorDetails
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from radixway.config.base import ConfigError

Place = tuple[str | int, ...]
"""Where in a tree: keys and indexes from the root."""

_IN_WORDS = {
    "extra_forbidden": "there is no such key",
    "model_type": "this must be a mapping of keys",
    "dict_type": "this must be a mapping of keys",
    "tuple_type": "this must be a list",
}
"""Kinds of mistakes that pydantic tells in Python's words."""


def read_yaml(path: Path) -> tuple[dict[str, Any], yaml.Node | None]:
    """The mapping in a file, and the nodes that know its lines. An empty file is an empty mapping.

    Raises:
        ConfigError: it cannot be read, is not YAML, or is no mapping.
    """
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node()
        tree = None if root is None else loader.construct_document(root)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from None
    except RecursionError:
        raise ConfigError(f"{path}: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        what = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ConfigError(f"{where}: not valid YAML: {what}") from None
    if tree is None:
        return {}, None
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise ConfigError(f"{path}:1: the file must be a mapping of sections")
    return tree, root


def line_of(at: Place, node: yaml.Node | None) -> int | None:
    """Where in the file the longest beginning of `at` stands."""
    line = None
    for part in at:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == part]
        elif isinstance(node, yaml.SequenceNode):
            found = [(value, value) for index, value in enumerate(node.value) if index == part]
        else:
            break
        if not found:
            break
        named, node = found[-1]
        line = named.start_mark.line + 1
    return line


def in_words(mistake: ErrorDetails) -> str:
    """What pydantic found, for people."""
    return _IN_WORDS.get(mistake["type"]) or mistake["msg"].removeprefix("Value error, ")


class _Loader(yaml.SafeLoader):
    """Tells two more mistakes by their line: a key that comes twice, and a scalar that is not of its type."""

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

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):
            kind = node.tag.rpartition(":")[2]
            raise ConstructorError(problem=f"this is no {kind}", problem_mark=node.start_mark) from None
