"""What the tree promises, one sentence at a time."""

from __future__ import annotations

import gc
import weakref
from array import array
from itertools import chain

import pytest

from radixway.core.radix import RadixNode, RadixTree, lfu, lru, priority, slru
from support.model import Values


def text_tree(*texts: str) -> RadixTree[str, Values]:
    """A tree of texts; the value of each character is its code."""
    tree: RadixTree[str, Values] = RadixTree()
    for text in texts:
        tree.insert(text, values(text))
    return tree


def values(text: str) -> Values:
    return Values(map(ord, text))


def texts(payloads: list[Values]) -> list[str]:
    return ["".join(map(chr, payload)) for payload in payloads]


def has(tree: RadixTree[str, Values], text: str) -> bool:
    return tree.match(text, touch=False).length == len(text)


def pages(*tokens: int) -> bytes:
    return array("i", tokens).tobytes()


# Matching


def test_a_match_ends_at_a_node_or_inside_its_edge() -> None:
    tree = text_tree("abcd", "abcdefgh")
    whole, beside, middle = tree.match("abcd"), tree.match("abcdXY"), tree.match("abcdefXY")
    assert (whole.node.key, whole.length, whole.inside) == ("abcd", 4, 0)
    assert (beside.node.key, beside.length, beside.inside) == ("abcd", 4, 0)
    assert (middle.node.key, middle.length, middle.inside) == ("efgh", 6, 2)
    assert texts(middle.payloads()) == ["abcd", "ef"]
    assert [node.key for node in middle.node.path_from_root()] == ["abcd", "efgh"]


def test_a_match_leaves_the_tree_as_it_is() -> None:
    tree = text_tree("hello world")
    before = str(tree)
    assert tree.match("hello there").length == 6
    assert tree.match("nothing", "nowhere").length == 0
    assert str(tree) == before


def test_nothing_at_all_matches_nothing() -> None:
    tree = text_tree()
    assert tree.match("").length == tree.match("abc").length == 0
    assert tree.match("abc").payloads() == []
    tree.insert("", values(""))
    assert len(tree) == 0
    tree.check()


def test_only_whole_pages_count() -> None:
    tree: RadixTree[bytes, Values] = RadixTree(width=8)
    inserted = tree.insert(pages(1, 2, 3, 4, 5), Values([100, 101]))
    assert (inserted.length, tree.size) == (2, 2)
    assert tree.match(pages(1, 2, 3, 9)).length == 1
    assert tree.match(pages(1)).length == 0
    tree.insert(pages(1, 2, 3, 9), Values([100, 102]))
    assert [node.key for node in tree.nodes()] != [], "the shared page is split off"
    assert (len(tree), tree.size) == (3, 3)
    tree.check()


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 64, 1000])
def test_the_first_difference_is_found_wherever_it_is(length: int) -> None:
    tokens = list(range(length))
    for width in (4, 16):
        tree: RadixTree[bytes, Values] = RadixTree(width=width)
        strides = 4 * length // width
        tree.insert(pages(*tokens), Values(range(strides)))
        for at in {*range(min(length, 20)), length // 2, length - 1}:
            other = [*tokens[:at], -1, *tokens[at + 1 :], 7]
            assert tree.match(pages(*other)).length == 4 * at // width
        for end in {0, 1, length // 2, length - 1}:
            assert tree.match(pages(*tokens[:end])).length == 4 * end // width


def test_a_later_match_goes_on_where_the_earlier_one_ended() -> None:
    tree = text_tree("abc")
    key = "abcdefgh"
    first = tree.match(key)
    tree.insert("abcde", values("abcde"))
    second = tree.match(key, after=first)
    assert (first.length, second.length) == (3, 5)
    tree.clear_namespaces()
    assert tree.match(key, after=second).length == 0


# Inserting


def test_an_insert_says_how_much_was_there_and_keeps_the_rest() -> None:
    tree = text_tree("hello world")
    inserted = tree.insert("hello there", Values(range(100, 111)))
    assert inserted.existed == 6
    assert inserted.node.payload == Values(range(106, 111))
    assert list(chain(*inserted.payloads())) == [*map(ord, "hello "), *range(106, 111)]
    again = tree.insert("hello the", Values(range(9)))
    assert (again.existed, again.node.end) == (9, 9)


def test_a_node_keeps_its_place_when_its_edge_is_split() -> None:
    tree = text_tree("abcdef")
    node = tree.match("abcdef").node
    tree.insert("abX", values("abX"))
    tree.insert("abcdY", values("abcdY"))
    assert (node.key, node.start, node.end) == ("ef", 4, 6)
    assert "".join(above.key for above in node.path_from_root()) == "abcdef"


def test_a_payload_that_cannot_be_split_leaves_the_tree_sound() -> None:
    tree = text_tree("abcdef")
    for key in ("abX", "abcdefgh"):
        with pytest.raises(AssertionError, match="is split at"):
            tree.insert(key, Values([1]))
    with pytest.raises(AssertionError, match="is split at"):
        tree.grow(tree.lock(tree.match("abc")), "defgh", Values([1]))
    assert has(tree, "abcdef")
    tree.check()


def test_namespaces_share_nothing_but_the_order_of_eviction() -> None:
    tree = text_tree("abc")
    tree.insert("abd", values("abd"), "tenant")
    assert tree.match("abd").length == 2
    assert tree.match("abd", "tenant").length == 3
    assert tree.match("abd", "other").length == 0
    tree.match("abc")
    assert texts(tree.evict(3)) == ["abd"]
    assert "tenant" not in str(tree)
    tree.check()


# Growing


def test_a_leaf_that_one_owner_holds_grows_in_place() -> None:
    tree = text_tree()
    node = tree.lock(tree.match("prompt"))
    for part in ("prompt", " and", " answer"):
        grown = tree.grow(node, part, values(part))
        node = grown.node
        assert grown.existed == 0
    assert (len(tree), tree.size, tree.locked_size) == (1, 17, 17)
    assert texts(tree.match("prompt and answer").payloads()) == ["prompt and answer"]
    tree.unlock(node)
    assert tree.evictable_size == 17
    tree.check()


def test_a_leaf_that_somebody_else_holds_too_gets_a_child() -> None:
    tree = text_tree("abc")
    mine, theirs = tree.lock(tree.match("abc")), tree.lock(tree.match("abc"))
    grown = tree.grow(mine, "de", values("de"))
    assert grown.node is not theirs
    assert (theirs.key, grown.node.key, tree.locked_size) == ("abc", "de", 5)
    tree.unlock(grown.node)
    assert tree.locked_size == 3
    tree.unlock(theirs)
    assert tree.locked_size == 0
    tree.check()


def test_growing_over_what_another_has_added_meanwhile_finds_the_duplicate() -> None:
    tree = text_tree("abc")
    mine = tree.lock(tree.match("abc"))
    tree.insert("abcdef", values("abcdef"))
    grown = tree.grow(mine, "deXY", Values([1, 2, 3, 4]))
    assert grown.existed == 2
    assert list(chain(*grown.payloads())) == [*map(ord, "abcde"), 3, 4]
    assert (tree.locked_size, tree.evictable_size) == (7, 1)
    tree.check()


def test_only_what_is_locked_grows() -> None:
    tree = text_tree("abc")
    with pytest.raises(ValueError, match="lock it first"):
        tree.grow(tree.match("abc").node, "d", values("d"))


# Locking


def test_a_lock_inside_an_edge_keeps_just_what_was_matched() -> None:
    tree = text_tree("abcdef")
    node = tree.lock(tree.match("abcX"))
    assert (node.key, tree.locked_size, tree.evictable_size) == ("abc", 3, 3)
    assert texts(tree.evict(100)) == ["def"]
    assert has(tree, "abc")
    tree.unlock(node)
    assert texts(tree.evict(100)) == ["abc"]


def test_a_match_can_be_locked_twice_and_after_its_edge_was_split() -> None:
    tree = text_tree("abcdef")
    match = tree.match("abcdXY")
    tree.insert("abX", values("abX"))
    first, second = tree.lock(match), tree.lock(match)
    assert first is second
    assert (first.end, first.pins, tree.locked_size) == (4, 2, 4)
    tree.unlock(first)
    assert tree.locked_size == 4
    tree.unlock(second)
    assert tree.locked_size == 0
    tree.check()


def test_a_lock_stays_through_splits_inserts_and_evictions_around_it() -> None:
    tree = text_tree("abcdef")
    node = tree.lock(tree.match("abcdef"))
    tree.insert("abcX", values("abcX"))
    tree.insert("abcdefgh", values("abcdefgh"))
    other = tree.lock(tree.match("abY"))
    tree.check()
    assert sorted(texts(tree.evict(100))) == ["X", "gh"]
    assert (has(tree, "abcdef"), tree.size, tree.locked_size) == (True, 6, 6)
    tree.unlock(node)
    assert tree.locked_size == 2
    tree.unlock(other)
    assert tree.locked_size == 0
    tree.check()


def test_what_was_evicted_cannot_be_locked() -> None:
    tree = text_tree("abc")
    match = tree.match("abc")
    tree.evict(1)
    assert not match.node.attached
    with pytest.raises(ValueError, match="match again"):
        tree.lock(match)


def test_nothing_matched_can_be_locked_and_unlocked_all_the_same() -> None:
    tree = text_tree("abc")
    node = tree.lock(tree.match("xyz"))
    assert tree.locked_size == 0
    tree.unlock(node)
    node = tree.lock(tree.match("xyz", "tenant"))
    node = tree.grow(node, "xyz", values("xyz")).node
    assert tree.match("xyz", "tenant").node is node
    assert tree.locked_size == 3


def test_unlocking_what_is_not_locked_is_refused() -> None:
    tree = text_tree("abc")
    with pytest.raises(ValueError, match="not locked"):
        tree.unlock(tree.match("abc").node)


# Evicting


def test_the_least_recently_used_goes_first() -> None:
    tree = text_tree("a1", "b2", "c3")
    tree.match("a1")
    tree.match("b2", touch=False)
    assert texts(tree.evict(2)) == ["b2"]
    assert texts(tree.evict(4)) == ["c3", "a1"]


def test_a_leaf_loses_no_more_than_was_asked_for() -> None:
    tree = text_tree("long text", "other")
    assert texts(tree.evict(5)) == [" text"]
    assert texts(tree.evict(5)) == ["long", "r"]
    assert (has(tree, "othe"), tree.size) == (True, 4)
    tree.check()


def test_a_shared_prefix_outlives_its_branches() -> None:
    tree = text_tree("system a", "system b", "unrelated")
    assert texts(tree.evict(2)) == ["a", "b"]
    assert has(tree, "system ")
    assert texts(tree.evict(7)) == ["system "]
    assert has(tree, "unrelated")


def test_what_is_not_there_cannot_be_freed() -> None:
    tree = text_tree("abc")
    assert tree.evict(0) == tree.evict(-5) == []
    assert texts(tree.evict(1000)) == ["abc"]
    assert tree.evict(1) == []


def test_unlocking_counts_as_a_use() -> None:
    tree = text_tree("a1", "b2")
    tree.unlock(tree.lock(tree.match("a1", touch=False)))
    assert texts(tree.evict(2)) == ["b2"]


@pytest.mark.parametrize(
    ("order", "goes"),
    [(lru, ["often", "twice", "never", "worth"]), (slru, ["never", "worth", "often", "twice"]),
     (lfu, ["never", "worth", "twice", "often"]), (priority, ["often", "twice", "never", "worth"])],
)  # fmt: skip
def test_the_order_decides_who_goes(order: object, goes: list[str]) -> None:
    tree: RadixTree[str, Values] = RadixTree(order=order)  # type: ignore[arg-type]
    for word in ("often", "twice", "never"):
        tree.insert(word, values(word))
        for _ in range({"often": 4, "twice": 2, "never": 0}[word]):
            tree.match(word)
    tree.insert("worth", values("worth"), priority=7)
    tree.insert("later", values("later"), priority=8)
    for _ in range(9):
        tree.match("later")
    assert texts(tree.evict(20)) == goes


def test_a_prefix_is_worth_as_much_as_the_best_that_goes_on_from_it() -> None:
    tree: RadixTree[str, Values] = RadixTree(order=priority)
    tree.insert("system prompt", values("system prompt"), priority=5)
    tree.insert("system failure", values("system failure"), priority=1)
    tree.insert("chatter", values("chatter"), priority=2)
    assert texts(tree.evict(14)) == ["failure", "chatter"]
    assert has(tree, "system prompt")


# Removing


def test_removing_a_node_takes_all_below_it() -> None:
    tree = text_tree("abc", "abcd", "abce", "b")
    assert sorted(texts(tree.remove_subtree(tree.match("abc").node))) == ["abc", "d", "e"]
    assert (len(tree), tree.size) == (1, 1)
    tree.check()


def test_what_is_locked_is_not_removed() -> None:
    tree = text_tree("abc", "abcd", "b")
    tree.lock(tree.match("abcd"))
    with pytest.raises(ValueError, match="locked"):
        tree.remove_subtree(tree.match("abc").node)
    with pytest.raises(ValueError, match="locked"):
        tree.clear_namespaces()
    assert tree.size == 5
    tree.check()


def test_clearing_a_namespace_leaves_the_others() -> None:
    tree = text_tree("abc")
    tree.insert("xyz", values("xyz"), "tenant")
    assert texts(tree.clear_namespaces("tenant", "unheard of")) == ["xyz"]
    assert texts(tree.clear_namespaces()) == ["abc"]
    assert len(tree) == tree.size == 0
    tree.check()


# Depth, memory, faults


def test_a_chain_of_five_thousand_turns_is_no_trouble() -> None:
    tree = text_tree()
    node = tree.lock(tree.match("x"))
    holders = [node]
    for _ in range(5000):
        holders.append(tree.lock(node))  # so that growing makes a child each time
        node = tree.grow(node, "x", values("x")).node
    assert len(tree) == 5000
    assert tree.match("x" * 6000).length == 5000
    tree.check()
    assert len(str(tree)) < 200_000
    for holder in [node, *holders[1:]]:
        tree.unlock(holder)
    assert tree.locked_size == 0
    assert len(tree.evict(2500)) == 2500
    assert len(tree.remove_subtree(next(tree.nodes()))) == 2500


def test_a_node_that_has_left_is_free_at_once() -> None:
    tree = text_tree("abc", "abd")
    gone = weakref.ref(Leaving())
    gc.disable()
    try:
        payload = Leaving()
        gone = weakref.ref(payload)
        tree.insert("xyz", payload)  # type: ignore[arg-type]
        del payload
        tree.match("abc")
        tree.match("abd")
        tree.evict(3)
        assert gone() is None
    finally:
        gc.enable()


class Leaving:
    """A payload that can be watched."""

    def split(self, at: int) -> tuple[Leaving, Leaving]:
        raise AssertionError("whole leaves only")

    join = None


@pytest.mark.parametrize("name", ["size", "locked_size", "_count"])
def test_check_notices_a_wrong_count(name: str) -> None:
    tree = text_tree("abc")
    setattr(tree, name, 17)
    with pytest.raises(AssertionError, match="17"):
        tree.check()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("key", "", "empty"),
        ("end", 9, "end"),
        ("pins", 0, "pins"),
        ("hits", -1, "hits"),
        ("priority", -1, "priority"),
        ("segment", None, "segment"),
    ],
)
def test_check_notices_a_node_that_is_wrong(name: str, value: object, words: str) -> None:
    tree = text_tree("abc", "abcd", "abcde")
    if name == "pins":
        tree.lock(tree.match("abcd"))
    node: RadixNode[str, Values] = tree.match("abc", touch=False).node
    setattr(node, name, value)
    with pytest.raises(AssertionError, match=words):
        tree.check()


def test_a_drawing_shows_forks_indented_and_chains_below_each_other() -> None:
    tree = text_tree("hello world", "hello there", "hello there you")
    tree.lock(tree.match("hello world"))
    assert str(tree).splitlines() == [
        "4 nodes, 20 strides, 11 locked",
        "<root of None>",
        "  <'hello ', 0–6, pins 1>",
        "  ├─ <'world', 6–11, pins 1>",
        "  └─ <'there', 6–11>",
        "     <' you', 11–15>",
    ]
    packed: RadixTree[bytes, Values] = RadixTree(width=8)
    packed.insert(pages(*range(20)), Values(range(10)))
    assert str(packed).splitlines()[-1] == "  <0 1 2 3 4 5 6 7 … 12 more, 0–10>"


def test_a_width_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="width"):
        RadixTree(width=0)
