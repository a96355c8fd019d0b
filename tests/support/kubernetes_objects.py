"""What a Kubernetes API server does to objects: patches, server-side apply, generations, owners."""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]
Path = tuple[str, ...]

SERVERS_OWN = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionTimestamp",
)
"""Of the metadata, what no client writes."""


def merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def patched(old: Object, operations: list[Object]) -> Object:
    """A JSON patch (RFC 6902) of `add`, `replace`, `remove` and `test` on mappings."""
    result = copy.deepcopy(old)
    for operation in operations:
        *above, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        node = result
        for part in above:
            node = node[part]
        match operation["op"]:
            case "test":
                assert node.get(last) == operation["value"]
            case "remove":
                del node[last]
            case _:
                node[last] = operation["value"]
    return result


def leaves(tree: Any, path: Path = ()) -> set[Path]:
    """Where the fields of a tree are; a list is one field, as of lists that are replaced whole."""
    if not isinstance(tree, dict) or not tree:
        return {path}
    return {leaf for key, value in tree.items() for leaf in leaves(value, (*path, key))}


def applied(old: Object | None, new: Object, manager: str, force: bool) -> Object:
    """Server-side apply: a manager's fields are as it says, and those that it says no more are gone.

    Raises PermissionError (a conflict) where another manager has another value and `force` is not given.
    """
    result = copy.deepcopy(old) if old else {"metadata": {}}
    owned = {each["manager"]: _paths(each) for each in result["metadata"].get("managedFields", [])}
    mine = {
        path for path in leaves(new) if path[0] not in ("apiVersion", "kind") and path != ("metadata", "name")
    }
    for path in owned.get(manager, set()) - mine:
        if not any(path in paths for name, paths in owned.items() if name != manager):
            _remove(result, path)
    for other, paths in owned.items():
        for path in paths & mine if other != manager else ():
            if _at(result, path) != _at(new, path):
                if not force:
                    raise PermissionError(f"conflict with {other}: .{'.'.join(path)}")
                paths.discard(path)
    result = _overlaid(result, new)
    owned[manager] = mine
    result["metadata"]["managedFields"] = [
        {"manager": name, "operation": "Apply", "fieldsV1": {"paths": sorted(map(list, paths))}}
        for name, paths in owned.items()
    ]
    return result


def _paths(entry: Object) -> set[Path]:
    return {tuple(path) for path in entry["fieldsV1"]["paths"]}


def _overlaid(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return copy.deepcopy(new)
    return old | {key: _overlaid(old.get(key), value) for key, value in new.items()}


def _at(tree: Any, path: Path) -> Any:
    for part in path:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _remove(tree: Object, path: Path) -> None:
    for part in path[:-1]:
        tree = tree.get(part, {})
    tree.pop(path[-1], None)


def written(old: Object | None, new: Object, part: str | None) -> Object:
    """`new` as it is stored when it came by a path of `part` (None: the object itself, or its `status`)."""
    result = copy.deepcopy(new)
    metadata = result.setdefault("metadata", {})
    for name in SERVERS_OWN:
        if old and name in old["metadata"] and name != "managedFields":
            metadata[name] = old["metadata"][name]
    if old is None:
        return result
    if part == "status":
        kept = copy.deepcopy(old)
        kept["status"] = result.get("status", {})
        return kept
    if "status" in old:
        result["status"] = copy.deepcopy(old["status"])
    else:
        result.pop("status", None)
    if result.get("spec") != old.get("spec"):
        metadata["generation"] = old["metadata"]["generation"] + 1
    return result
