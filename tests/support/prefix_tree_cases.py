"""Three texts in Ray's prefix tree: the nodes they make, and what evictions leave."""

from __future__ import annotations

from radixway.cluster.ray_router import Node

THREE = (("helloworld", "a", 1), ("hellothere", "b", 2), ("hellothomas", "b", 3))
THREE_NODES = {
    "": ("", None, {"a": 1, "b": 3}, "h"),
    "h": ("hello", "", {"a": 1, "b": 3}, "wt"),
    "hw": ("world", "hello", {"a": 1}, ""),
    "ht": ("th", "hello", {"b": 3}, "eo"),
    "hte": ("ere", "th", {"b": 2}, ""),
    "hto": ("omas", "th", {"b": 3}, ""),
}
"""By path: text, the parent's text, times, edges."""
EVICTIONS = (
    ("a", 10, {"a": 0, "b": 14}, {"a": [""], "b": ["", "omas", "th", "hello", "ere"]}),
    ("b", 3, {"a": 0, "b": 11}, {"b": ["", "omas", "th", "hello"]}),
    ("b", 11, {"a": 0, "b": 0}, {"b": [""]}),
)
"""Of whom a character is evicted, how many go, what is left and in which order."""


def describe_node(node: Node) -> tuple[str, str | None, dict[str, float], set[str]]:
    parent = None if node.parent is None else node.parent.text
    return node.text, parent, node.tenant_to_last_access_time, set(node.edge_label_to_child)
