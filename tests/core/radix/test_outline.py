"""A tree in its hottest nodes."""

from radixway.core.radix import RadixTree, outline, root_of
from support.model import Values


def grown() -> RadixTree[str, Values]:
    tree: RadixTree[str, Values] = RadixTree()
    for text, uses in (("abcd", 3), ("abxy", 1), ("zz", 2)):
        tree.insert(text, Values(map(ord, text)))
        for _ in range(uses):
            tree.match(text)
    return tree


def told(tree, most, levels=9):
    shown = outline(tree, most, levels)
    return [(each.node.key, each.parent, each.level, each.hidden, each.hidden_strides) for each in shown]


def test_the_hottest_come_first_and_none_without_its_parent():
    assert told(grown(), 9) == [
        ("ab", None, 0, 0, 0),
        ("cd", 0, 1, 0, 0),
        ("zz", None, 0, 0, 0),
        ("xy", 0, 1, 0, 0),
    ]


def test_what_is_left_out_is_counted():
    assert told(grown(), 2) == [("ab", None, 0, 1, 2), ("cd", 0, 1, 0, 0)]
    assert told(grown(), 9, levels=1) == [("ab", None, 0, 2, 4), ("zz", None, 0, 0, 0)]


def test_heat_may_be_something_else():
    tree = grown()
    shown = outline(tree, 1, 9, lambda node: node.key.startswith("z"))
    assert [each.node.key for each in shown] == ["zz"]


def test_the_root_of_a_node_knows_its_namespace():
    tree: RadixTree[str, Values] = RadixTree()
    tree.insert("ab", Values(b"ab"), "mine")
    (shown,) = outline(tree, 5, 5)
    assert root_of(shown.node).namespace == "mine"
